import { internalError } from '../../base/index.ts'
import type { Role } from '../../program/index.ts'
import { type ArenaLayout, placeBytes, placeData } from './arena.ts'
import type { PortLayout } from './portLayout.ts'
import type { WasmMemory } from './wasm/index.ts'

interface Move {
  readonly direction: 'in' | 'out'
  readonly port: string
  readonly value: number
}

/** One move between a rank's arena and a port in the host tier, ready to be done again and again. */
export function bindMove(
  move: Move,
  role: Role,
  rank: number,
  replica: { readonly index: number; readonly count: number },
  ports: PortLayout,
  arena: ArenaLayout,
  memory: WasmMemory,
  host: WasmMemory,
): () => void {
  const place = arena.value(move.value)
  const data = placeData(memory, place)
  const bytes = new Uint8Array(memory.buffer, place.pointer, placeBytes(place))
  if (move.direction === 'in') {
    const port = ports.inputs.find((one) => one.name === move.port)
    if (port === undefined) throw internalError(`no port ${move.port}`)
    if (port.kind === 'scalar') {
      const source = new Float64Array(host.buffer, port.offset, 1)
      return () => {
        data[0] = source[0]!
      }
    }
    // Samples of a micro-batch are split over the replicas of the stage, in order.
    const microbatch = role.values[move.value]!.microbatch ?? 0
    const share = microbatch * replica.count + replica.index
    const source = new Uint8Array(host.buffer, port.offset + share * bytes.length, bytes.length)
    return () => bytes.set(source)
  }
  const port = ports.outputs.find(
    (one) => one.rank === rank && one.name === move.port && one.value === move.value,
  )
  // Another replica has the same and gives it.
  if (port === undefined) return () => {}
  if (port.kind === 'scalar') {
    const target = new Float64Array(host.buffer, port.offset, 1)
    return () => {
      target[0] = data[0]!
    }
  }
  const target = new Uint8Array(host.buffer, port.offset, bytes.length)
  return () => target.set(bytes)
}
