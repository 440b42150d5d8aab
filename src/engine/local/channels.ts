import { MeshwrightError } from '../../base/index.ts'
import type { ChannelLayout } from './hostLayout.ts'
import type { Signals } from './signals.ts'

/** Bytes of a private memory that go out or come in as one message. */
export interface Message {
  /** Id of the transfer: the same on both ends. */
  readonly transfer: number
  readonly bytes: Uint8Array
}

const lineWords = 16

/** One end of a mailbox: a ring of slots that the sender fills and the receiver empties, in order. */
abstract class ChannelEnd {
  readonly layout: ChannelLayout
  protected readonly signals: Signals
  protected readonly words: Int32Array
  protected readonly head: number
  protected readonly tail: number
  protected slot = 0
  private readonly slots: Uint8Array[]

  constructor(signals: Signals, buffer: SharedArrayBuffer | ArrayBuffer, layout: ChannelLayout) {
    this.layout = layout
    this.signals = signals
    this.words = signals.words
    this.head = layout.control / 4
    this.tail = this.head + lineWords
    this.slots = Array.from(
      { length: layout.slots },
      (_, slot) => new Uint8Array(buffer, layout.data + slot * layout.slotBytes, layout.slotBytes),
    )
  }

  protected get header(): number {
    return this.head + 2 * lineWords + 2 * this.slot
  }

  protected slotBytes(bytes: number): Uint8Array {
    const slot = this.slots[this.slot]!
    return bytes === slot.length ? slot : slot.subarray(0, bytes)
  }

  protected next(): void {
    this.slot = this.slot + 1 === this.layout.slots ? 0 : this.slot + 1
  }
}

export class Sender extends ChannelEnd {
  /** Whether a slot is free. */
  get ready(): boolean {
    const used = (Atomics.load(this.words, this.head) - Atomics.load(this.words, this.tail)) | 0
    return used < this.layout.slots
  }

  /** Copies the message into a free slot. */
  send(message: Message): void {
    const { words, head, header } = this
    words[header] = message.transfer
    words[header + 1] = message.bytes.length
    this.slotBytes(message.bytes.length).set(message.bytes)
    this.next()
    Atomics.add(words, head, 1)
    this.signals.ring(this.layout.receiver)
  }
}

export class Receiver extends ChannelEnd {
  /** Whether a message has come. */
  get ready(): boolean {
    return Atomics.load(this.words, this.head) !== Atomics.load(this.words, this.tail)
  }

  /** Copies the message that has come into `message`. Throws if it is another than that expects. */
  receive(message: Message): void {
    const { words, tail, header } = this
    const transfer = words[header]!
    const bytes = words[header + 1]!
    if (transfer !== message.transfer || bytes !== message.bytes.length)
      throw new MeshwrightError(
        'RUN_TRANSFER_MISMATCH',
        `expected transfer ${message.transfer} of ${message.bytes.length} bytes from rank ${this.layout.sender}, got transfer ${transfer} of ${bytes} bytes`,
        { hint: 'the two ranks disagree on the order of their transfers: `meshwright check` shows where' },
      )
    message.bytes.set(this.slotBytes(bytes))
    this.next()
    Atomics.add(words, tail, 1)
    this.signals.ring(this.layout.sender)
  }
}
