import { internalError } from '../../base/index.ts'
import { methods } from '../../schedule/index.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'

/** Every action of the method's set once, on every rank of its stage. A fused `FB` counts as F and as B. */
export function checkActions({ program, roles }: VerifyContext): Finding[] {
  const { stages, microbatches } = program.work
  const method = methods.get(program.work.method)
  if (method === undefined) throw internalError(`no method ${program.work.method}`)
  const findings: Finding[] = []
  const stagesSeen = new Set<number>()
  for (const view of roles) {
    const done = actionsOf(view)
    for (const [key, places] of done) {
      const [stage, microbatch] = key.split(' ').map(Number) as [number, number]
      stagesSeen.add(stage)
      if (stage < stages && microbatch < microbatches) continue
      findings.push({
        code: 'ACTION_UNKNOWN',
        message: `${view.role.name} runs micro-batch ${microbatch} of stage ${stage}, but the step has ${stages} stages and ${microbatches} micro-batches`,
        fix: 'remove it, or correct its stage or micro-batch',
        ranks: view.ranks,
        places: [...places.values()].flat().map((instruction) => ({ role: view.index, instruction })),
      })
    }
    for (const stage of new Set(view.role.actions.map((action) => action.stage)))
      for (let microbatch = 0; microbatch < microbatches; microbatch++)
        findings.push(
          ...checkSet(view, method.sets, done.get(`${stage} ${microbatch}`) ?? new Map(), stage, microbatch),
        )
  }
  for (let stage = 0; stage < stages; stage++)
    if (!stagesSeen.has(stage))
      findings.push({
        code: 'ACTION_MISSING',
        message: `no rank runs stage ${stage}`,
        fix: 'give the stage to an actor of the schedule',
        ranks: [],
        places: [],
        stage,
      })
  return findings
}

/** Instructions of each phase, by `stage microbatch`. */
function actionsOf(view: RoleView): Map<string, Map<string, number[]>> {
  const done = new Map<string, Map<string, number[]>>()
  view.instructions.forEach((instruction, index) => {
    if (instruction.kind !== 'run' || instruction.action === undefined) return
    const action = view.role.actions[instruction.action]
    if (action === undefined) return
    const key = `${action.stage} ${action.microbatch}`
    const places = done.get(key) ?? new Map<string, number[]>()
    done.set(key, places)
    for (const phase of action.phase === 'FB' ? ['F', 'B'] : [action.phase])
      places.set(phase, [...(places.get(phase) ?? []), index])
  })
  return done
}

function checkSet(
  view: RoleView,
  sets: readonly (readonly string[])[],
  places: ReadonlyMap<string, readonly number[]>,
  stage: number,
  microbatch: number,
): Finding[] {
  const complete = sets.filter((set) => set.every((phase) => places.has(phase)))
  const all = [...places.values()].flat()
  if (complete.length === 1 && all.length === complete[0]!.length) return []
  const missing = complete.length === 0
  const found = [...places].map(([phase, list]) => (list.length > 1 ? `${list.length} x ${phase}` : phase))
  const wanted = sets.map((set) => set.join(', ')).join(' or ')
  return [
    {
      code: missing ? 'ACTION_MISSING' : 'ACTION_REPEATED',
      message: `stage ${stage}, micro-batch ${microbatch} on ${view.role.name}: found ${found.join(', ') || 'nothing'}, a complete step does ${wanted}`,
      fix: missing ? 'add what is missing' : 'do each once: every backward adds to the gradient',
      ranks: view.ranks,
      places: all.map((instruction) => ({ role: view.index, instruction })),
      stage,
      microbatch,
    },
  ]
}
