import { globalWords, rankBlock, rankWords } from './hostLayout.ts'

/** Why every rank has to leave its waits. */
export const abortReasons = { none: 0, stopped: 1, failed: 2 } as const

/** What a rank is doing, for whoever watches it. */
export const activities = { idle: 0, running: 1, waiting: 2, native: 3 } as const

/** Thrown out of a wait when the step ends early. */
export class Aborted extends Error {
  override readonly name = 'Aborted'
}

/**
 * Waiting and waking over shared words. Each rank has one bell and waits on nothing else: whoever changes what a rank
 * may be waiting for rings its bell, so one wait can watch many conditions and an abort reaches every wait.
 */
export class Signals {
  readonly words: Int32Array
  readonly rankCount: number

  constructor(buffer: ArrayBuffer | SharedArrayBuffer, rankCount: number) {
    this.words = new Int32Array(buffer)
    this.rankCount = rankCount
  }

  /** Call after the change is stored. */
  ring(rank: number): void {
    const bell = rankBlock(rank) / 4 + rankWords.bell
    Atomics.add(this.words, bell, 1)
    // Sequential consistency: either we see the sleeper, or it sees the bell before it sleeps.
    if (Atomics.load(this.words, bell + rankWords.sleeping) !== 0) Atomics.notify(this.words, bell)
  }

  ringAll(): void {
    for (let rank = 0; rank < this.rankCount; rank++) this.ring(rank)
  }

  /** Ends the step everywhere. The first reason stays. */
  abort(reason: number): void {
    Atomics.compareExchange(this.words, globalWords.abort, abortReasons.none, reason)
    this.ringAll()
  }

  get aborted(): boolean {
    return Atomics.load(this.words, globalWords.abort) !== abortReasons.none
  }

  /** True for the first rank that fails, false for those that fail after it. */
  claimFailure(rank: number): boolean {
    return Atomics.compareExchange(this.words, globalWords.failedRank, 0, rank + 1) === 0
  }

  /** Counts one more rank that has left the step; true for the last. */
  leave(): boolean {
    return Atomics.add(this.words, globalWords.finished, 1) + 1 === this.rankCount
  }

  activity(rank: number): number {
    return Atomics.load(this.words, rankBlock(rank) / 4 + rankWords.activity)
  }

  instruction(rank: number): number {
    return Atomics.load(this.words, rankBlock(rank) / 4 + rankWords.instruction)
  }

  progress(rank: number): number {
    return Atomics.load(this.words, rankBlock(rank) / 4 + rankWords.progress)
  }
}

/**
 * Milliseconds that a waiting rank looks before it sleeps, in a step and between steps. That saves the tens of
 * microseconds which waking takes, but only where a core is free for it.
 */
export interface SpinTimes {
  readonly step: number
  readonly idle: number
}

/** One rank's side of the signals. */
export class Waiter {
  readonly signals: Signals
  readonly rank: number
  /** Milliseconds spent in waits, without what `ready` did meanwhile. */
  waited = 0
  /** Milliseconds that `ready` functions say they worked. */
  worked = 0
  private readonly words: Int32Array
  private readonly block: number
  private readonly spin: SpinTimes

  constructor(signals: Signals, rank: number, spin: SpinTimes) {
    this.signals = signals
    this.rank = rank
    this.words = signals.words
    this.block = rankBlock(rank) / 4
    this.spin = spin
  }

  setActivity(activity: number): void {
    Atomics.store(this.words, this.block + rankWords.activity, activity)
  }

  /** Inside ONNX Runtime a worker must not be ended. */
  enterNative(): void {
    this.setActivity(activities.native)
  }

  leaveNative(): void {
    this.setActivity(activities.running)
  }

  /** Notes what this rank is at. Plain stores: whoever watches needs no order. */
  at(instruction: number): void {
    this.words[this.block + rankWords.instruction] = instruction
    this.words[this.block + rankWords.progress]!++
  }

  /** Returns once `ready()` holds; throws Aborted if the step ends first. `ready` may act as well as look. */
  until(ready: () => boolean): void {
    if (ready()) return
    const began = performance.now() - this.worked
    this.setActivity(activities.waiting)
    try {
      this.wait(ready, this.spin.step, () => {
        if (this.signals.aborted) throw new Aborted('the step has ended')
      })
    } finally {
      this.setActivity(activities.running)
      this.waited += performance.now() - this.worked - began
    }
  }

  /** As `until`, between steps, when nothing can end early. */
  idle(ready: () => boolean): void {
    this.setActivity(activities.idle)
    this.wait(ready, this.spin.idle, () => {})
    this.setActivity(activities.running)
  }

  private wait(ready: () => boolean, spin: number, check: () => void): void {
    const { words } = this
    const bell = this.block + rankWords.bell
    const sleeping = this.block + rankWords.sleeping
    if (spin > 0) {
      const end = performance.now() + spin
      do {
        for (let turn = 0; turn < 64; turn++) if (ready()) return
        check()
      } while (performance.now() < end)
    }
    for (;;) {
      const heard = Atomics.load(words, bell)
      if (ready()) return
      check()
      Atomics.store(words, sleeping, 1)
      Atomics.wait(words, bell, heard)
      Atomics.store(words, sleeping, 0)
    }
  }
}
