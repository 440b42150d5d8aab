import { graphCost } from '../graph/index.ts'
import { columnKinds, type Program, type Role, type Task } from '../program/index.ts'
import { type Action, phases } from '../schedule/index.ts'

/**
 * Which share of its action's work each run of a role does, by instruction: 1 where it is the only run of its action.
 * Several (pieces between communication) share by their flops, or alike where none has any. A phase that is done once
 * a step has one action for all micro-batches. 0 for what is no run of an action.
 */
export function actionShares({ tasks }: Pick<Program, 'tasks'>, { code, actions }: Role): Float64Array {
  const shares = new Float64Array(code.length)
  const runs = new Map<string, number[]>()
  for (let at = 0; at < code.length; at++) {
    if (code.kind[at] !== columnKinds.run) continue
    const action = actions[code.operands[code.start[at]!]! - 1]
    if (action === undefined) continue
    shares[at] = 1
    const key = keyOf(action)
    const others = runs.get(key)
    if (others === undefined) runs.set(key, [at])
    else others.push(at)
  }
  const known = new Map<number, number>()
  const flopsOf = (at: number): number => {
    const task = code.target[at]!
    const flops = known.get(task) ?? taskFlops(tasks[task])
    known.set(task, flops)
    return flops
  }
  for (const parts of runs.values()) {
    if (parts.length === 1) continue
    const total = parts.reduce((sum, at) => sum + flopsOf(at), 0)
    for (const at of parts) shares[at] = total > 0 ? flopsOf(at) / total : 1 / parts.length
  }
  return shares
}

function keyOf({ phase, stage, microbatch, slice }: Action): string {
  return phases.get(phase)?.per === 'step'
    ? `${phase} ${stage}`
    : `${phase} ${stage} ${microbatch} ${slice ?? ''}`
}

function taskFlops(task: Task | undefined): number {
  return task?.kind === 'graph' ? graphCost(task.graph).flops : 0
}
