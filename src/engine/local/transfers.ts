import { internalError } from '../../base/index.ts'
import { placeBytes } from './arena.ts'
import { type Message, Receiver, Sender } from './channels.ts'
import type { HostLayout } from './hostLayout.ts'
import type { Waiter } from './signals.ts'
import type { TransferPlan } from './transferPlan.ts'
import type { WasmMemory } from './wasm/index.ts'

/** Sends or receives of one channel, in the order they are posted and therefore complete. */
interface Lane {
  readonly end: Sender | Receiver
  readonly parts: number[]
  posted: number
  completed: number
}

/** Moves the messages of one rank: posts them in list order and completes each as soon as its channel lets it. */
export class Transfers {
  sends = 0
  sentBytes = 0
  /** Called when all parts of an exchange are complete. */
  onComplete: ((instruction: number) => void) | undefined
  private readonly plan: TransferPlan
  private readonly waiter: Waiter
  private readonly messages: readonly Message[]
  private readonly lanes: readonly Lane[]
  private readonly laneOf: readonly Lane[]
  private readonly done: Uint8Array
  /** Parts of each instruction that are not complete. */
  private readonly left: Int32Array
  private outstanding = 0

  constructor(plan: TransferPlan, layout: HostLayout, host: WasmMemory, arena: WasmMemory, waiter: Waiter) {
    this.plan = plan
    this.waiter = waiter
    this.done = new Uint8Array(plan.parts.length)
    this.left = new Int32Array(1 + Math.max(-1, ...plan.posts.keys()))
    this.messages = plan.parts.map(({ transfer, place }) => ({
      transfer,
      bytes: new Uint8Array(arena.buffer, place.pointer, placeBytes(place)),
    }))
    const lanes = new Map<string, Lane>()
    this.laneOf = plan.parts.map(({ direction, peer, stream }, part) => {
      const key = `${direction} ${peer} ${stream}`
      let lane = lanes.get(key)
      if (lane === undefined) {
        const [sender, receiver] = direction === 'send' ? [waiter.rank, peer] : [peer, waiter.rank]
        const channel = layout.channels.find(
          (one) => one.sender === sender && one.receiver === receiver && one.stream === stream,
        )
        if (channel === undefined) throw internalError(`no channel from rank ${sender} to rank ${receiver}`)
        const End = direction === 'send' ? Sender : Receiver
        lane = { end: new End(waiter.signals, host.buffer, channel), parts: [], posted: 0, completed: 0 }
        lanes.set(key, lane)
      }
      lane.parts.push(part)
      return lane
    })
    this.lanes = [...lanes.values()]
  }

  begin(): void {
    this.done.fill(0)
    this.sends = 0
    this.sentBytes = 0
    this.outstanding = 0
    for (const lane of this.lanes) {
      lane.posted = 0
      lane.completed = 0
    }
  }

  /** Posts all parts of an exchange, then moves what can move. */
  post(instruction: number): void {
    const parts = this.plan.posts.get(instruction)!
    this.left[instruction] = parts.length
    for (const part of parts) this.laneOf[part]!.posted++
    this.outstanding += parts.length
    this.progress()
  }

  /** Completes every part that can complete now. */
  progress(): void {
    if (this.outstanding === 0) return
    let moved: boolean
    do {
      moved = false
      for (const lane of this.lanes)
        while (lane.completed < lane.posted && lane.end.ready && this.isFree(lane.parts[lane.completed]!)) {
          this.move(lane)
          moved = true
        }
      // A part may have waited for one of a later lane.
    } while (moved && this.outstanding > 0)
  }

  /** Waits for what an instruction (no exchange) needs. */
  waitFor(instruction: number): void {
    const parts = this.plan.waits.get(instruction)
    if (parts !== undefined) this.waiter.until(() => this.allDone(parts))
  }

  /** Waits for everything that was posted. */
  finish(): void {
    this.waiter.until(() => {
      this.progress()
      return this.outstanding === 0
    })
  }

  private allDone(parts: readonly number[]): boolean {
    this.progress()
    return parts.every((part) => this.done[part] === 1)
  }

  private isFree(part: number): boolean {
    const { after } = this.plan.parts[part]!
    return after.length === 0 || after.every((earlier) => this.done[earlier] === 1)
  }

  private move(lane: Lane): void {
    const part = lane.parts[lane.completed]!
    const message = this.messages[part]!
    const began = performance.now()
    if (lane.end instanceof Sender) {
      lane.end.send(message)
      this.sends++
      this.sentBytes += message.bytes.length
    } else lane.end.receive(message)
    this.waiter.worked += performance.now() - began
    lane.completed++
    this.outstanding--
    this.done[part] = 1
    const { instruction } = this.plan.parts[part]!
    if (--this.left[instruction]! === 0) this.onComplete?.(instruction)
  }
}
