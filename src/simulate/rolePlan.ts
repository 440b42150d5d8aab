import { internalError } from '../base/index.ts'
import { byteSize } from '../graph/index.ts'
import {
  collectivePayloadBytes,
  columnKinds,
  type Instruction,
  operandBytes,
  type Program,
  type Role,
  readInstruction,
} from '../program/index.ts'
import { actionShares } from './actionShares.ts'
import { dependencesOf } from './dependences.ts'
import type { CostModel, RolePlan } from './types.ts'

/** Decodes a role: what waits for what inside of it, and how long its runs and moves take. */
export function planRole(program: Program, index: number, costs: CostModel): RolePlan {
  const role = program.roles[index]!
  const { code } = role
  const { length, kind, stream, start, operands } = code
  const cost = new Float64Array(length)
  const payload = new Map<number, number>()
  const partStart = new Int32Array(length + 1)
  const isSend: number[] = []
  const transfer: number[] = []
  const peer: number[] = []
  const bytes: number[] = []
  const streams = program.streams.map((): number[] => [])
  const bytesOf = operandSizes(role)
  const timeRun = runTimer(program, role, costs, bytesOf)
  for (let at = 0; at < length; at++) {
    partStart[at] = isSend.length
    if (kind[at] !== columnKinds.free) streams[stream[at]!]!.push(at)
    switch (kind[at]!) {
      case columnKinds.run:
        cost[at] = timeRun(at)
        break
      case columnKinds.exchange:
        for (let place = start[at]!; place < start[at + 1]!; place += 5) {
          isSend.push(operands[place] === 0 ? 1 : 0)
          transfer.push(operands[place + 1]!)
          peer.push(operands[place + 4]!)
          bytes.push(bytesOf(operands[place + 2]!, operands[place + 3]! - 1))
        }
        break
      case columnKinds.collective:
        payload.set(at, collectivePayloadBytes(role, collectiveAt(role, at)))
        break
      case columnKinds.move: {
        const place = start[at]!
        cost[at] = costs.move(operands[place] === 1 ? 'out' : 'in', bytesOf(operands[place + 2]!, -1))
        break
      }
    }
    if (!(cost[at]! >= 0)) throw internalError(`instruction ${at} of ${role.name} takes ${cost[at]} s`)
  }
  partStart[length] = isSend.length
  return {
    index,
    length,
    kind,
    stream,
    cost,
    payload,
    ...dependencesOf(role),
    partStart,
    partIsSend: new Uint8Array(isSend),
    partTransfer: new Int32Array(transfer),
    partPeer: new Int32Array(peer),
    partBytes: new Float64Array(bytes),
    streams: streams.map((list) => new Int32Array(list)),
  }
}

/** Instruction `at`, which is a collective. */
export function collectiveAt({ code }: Role, at: number): Extract<Instruction, { kind: 'collective' }> {
  const instruction = readInstruction(code, at)
  if (instruction.kind !== 'collective') throw internalError(`instruction ${at} is no collective`)
  return instruction
}

function operandSizes(role: Role): (value: number, region: number) => number {
  const whole = role.buffers.map(byteSize)
  return (value, region) =>
    region < 0 ? whole[role.values[value]!.buffer]! : operandBytes(role, { value, region })
}

function runTimer(
  program: Program,
  role: Role,
  costs: CostModel,
  bytesOf: ReturnType<typeof operandSizes>,
): (at: number) => number {
  const { code, actions } = role
  const shares = actionShares(program, role)
  return (at) => {
    const task = program.tasks[code.target[at]!]
    if (task === undefined) throw internalError(`no task ${code.target[at]}`)
    const place = code.start[at]!
    const action = actions[code.operands[place]! - 1]
    const reads = code.operands[place + 1]!
    const readBytes = reads > 0 ? bytesOf(code.operands[place + 2]!, code.operands[place + 3]! - 1) : 0
    return costs.run({ task, action, share: shares[at]!, readBytes })
  }
}
