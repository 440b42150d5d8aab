import { internalError } from '../../base/index.ts'
import { methods, type Phase, type ScheduleMethod } from '../../schedule/index.ts'
import { checkDeclaredActions } from './declaredActions.ts'
import { type Finding, isOncePerStep, type RoleView, type VerifyContext } from './finding.ts'

/** Instructions that do each phase of one stage and micro-batch. */
type Places = Map<string, number[]>

/** By stage, then by micro-batch. */
type Done = Map<number, Map<number, Places>>

/**
 * Every action of the method's set once, on every rank of its stage: ranks at one pipeline coordinate do the same
 * stages, and no other coordinate does them. A fused `FB` counts as F and as B. An action may be in parts, with
 * communication between: then those of all micro-batches are, and each part is done once.
 */
export function checkActions(context: VerifyContext): Finding[] {
  const { program, roles } = context
  if (program.work.method === 'declared') return checkDeclaredActions(context)
  const method = methods.get(program.work.method)
  if (method === undefined) throw internalError(`no method ${program.work.method}`)
  const { stages, microbatches } = program.work
  const findings: Finding[] = []
  const homes = new Map<number, Set<number>>()
  const ownStages = roles.map((view) => {
    const own = stagesOf(view)
    for (const stage of own) homes.set(stage, (homes.get(stage) ?? new Set()).add(view.role.pipeline))
    return own
  })
  roles.forEach((view, index) => {
    const isDone = (stage: number): boolean => ownStages[index]!.has(stage)
    const wanted = [...homes].flatMap(([stage, pipelines]) =>
      stage < stages && pipelines.has(view.role.pipeline) ? [stage] : [],
    )
    // Most roles are complete: what is where is only looked for to say what is wrong.
    if (wanted.every(isDone) && isComplete(view, ownStages[index]!, method, program.work)) return
    const done = actionsOf(view)
    findings.push(...unknownActions(view, done, method, program.work))
    for (const stage of wanted) {
      const parts = partsOf(view, done.get(stage))
      for (let microbatch = 0; microbatch < microbatches; microbatch++) {
        const places = done.get(stage)?.get(microbatch) ?? new Map()
        findings.push(...checkSet(view, method, places, parts, stage, microbatch))
      }
    }
  })
  for (let stage = 0; stage < stages; stage++) {
    const pipelines = [...(homes.get(stage) ?? [])]
    if (pipelines.length === 1) continue
    const missing = pipelines.length === 0
    findings.push({
      code: missing ? 'ACTION_MISSING' : 'ACTION_REPEATED',
      message: missing
        ? `no rank runs stage ${stage}`
        : `stage ${stage} runs at pipeline coordinates ${pipelines.join(' and ')}`,
      fix: missing ? 'give the stage to an actor of the schedule' : 'give the stage to one of them',
      ranks: [],
      places: [],
      stage,
    })
  }
  return findings
}

/** Stages that a role does something of, in the order in which they come. */
function stagesOf(view: RoleView): Set<number> {
  const stages = new Set<number>()
  for (const index of view.of('run')) {
    const action = view.role.actions[view.actionOf(index)]
    if (action !== undefined) stages.add(action.stage)
  }
  return stages
}

/** Whether a role does all of its stages as `unknownActions` and `checkSet` would have it. */
function isComplete(
  view: RoleView,
  own: ReadonlySet<number>,
  method: ScheduleMethod,
  { stages, microbatches }: VerifyContext['program']['work'],
): boolean {
  const known = [...new Set([...method.sets.flat(), ...method.optional, ...method.added])]
  const bits = new Map(known.map((phase, index) => [phase, 1 << index]))
  const mask = (phases: readonly Phase[]): number =>
    phases.reduce((sum, phase) => sum | (bits.get(phase) ?? 0), 0)
  if (bits.has('F') && bits.has('B')) bits.set('FB', mask(['F', 'B']))
  const once = mask(known.filter((phase) => isOncePerStep({ phase })))
  const beside = mask([...method.optional, ...method.added])
  const wanted = new Set(method.sets.map(mask))
  if (view.of('run').length < own.size * microbatches) return false
  const cells = new Map([...own].map((stage) => [stage, new Int32Array(microbatches)]))
  for (const index of view.of('run')) {
    const action = view.role.actions[view.actionOf(index)]
    if (action === undefined) continue
    const { phase, stage, microbatch } = action
    const bit = bits.get(phase)
    if (bit === undefined || stage >= stages || !(microbatch < microbatches)) return false
    const cell = cells.get(stage)!
    if ((cell[microbatch]! & bit & ~once) !== 0) return false
    cell[microbatch]! |= bit
  }
  for (const cell of cells.values()) for (const found of cell) if (!wanted.has(found & ~beside)) return false
  return true
}

function actionsOf(view: RoleView): Done {
  const done: Done = new Map()
  for (const index of view.of('run')) {
    const action = view.role.actions[view.actionOf(index)]
    if (action === undefined) continue
    const byMicrobatch = done.get(action.stage) ?? new Map<number, Places>()
    done.set(action.stage, byMicrobatch)
    const places: Places = byMicrobatch.get(action.microbatch) ?? new Map()
    byMicrobatch.set(action.microbatch, places)
    for (const phase of action.phase === 'FB' ? ['F', 'B'] : [action.phase])
      places.set(phase, [...(places.get(phase) ?? []), index])
  }
  return done
}

/** Into how many parts each phase of a stage is cut: as many as any of its micro-batches has. */
function partsOf(view: RoleView, byMicrobatch: ReadonlyMap<number, Places> | undefined): Map<string, number> {
  const parts = new Map<string, number>()
  for (const places of byMicrobatch?.values() ?? [])
    for (const [phase, list] of places)
      if (sameLabels(view, list)) parts.set(phase, Math.max(parts.get(phase) ?? 1, countParts(view, list)))
  return parts
}

/** Different parts among the runs of an action: of other tasks, or on other buffers. */
function countParts(view: RoleView, runs: readonly number[]): number {
  if (runs.length === 1) return 1
  const { code, values } = view
  const keys = runs.map((run) => {
    const at = code.start[run]!
    let key = String(code.target[run])
    for (let place = at + 2; place < at + 2 + 2 * code.operands[at + 1]!; place += 2)
      key += ` ${values.buffer[code.operands[place]!]},${code.operands[place + 1]}`
    return key
  })
  return new Set(keys).size
}

/** Whether none is of an `FB` where another is of a `B`. */
function sameLabels(view: RoleView, runs: readonly number[]): boolean {
  const label = (run: number): string | undefined => view.role.actions[view.actionOf(run)]?.phase
  return runs.every((run) => label(run) === label(runs[0]!))
}

/** Actions that no step of this size and method has. */
function unknownActions(
  view: RoleView,
  done: Done,
  method: ScheduleMethod,
  { stages, microbatches }: VerifyContext['program']['work'],
): Finding[] {
  const known = new Set([...method.sets.flat(), ...method.optional, ...method.added])
  const findings: Finding[] = []
  for (const [stage, byMicrobatch] of done)
    for (const [microbatch, places] of byMicrobatch) {
      const outside = stage >= stages || microbatch >= microbatches
      const phases = [...places.keys()].filter((phase) => outside || !known.has(phase))
      if (phases.length === 0) continue
      findings.push({
        code: 'ACTION_UNKNOWN',
        message: `${view.role.name} runs ${phases.join(', ')} for micro-batch ${microbatch} of stage ${stage}; the step has ${stages} stages, ${microbatches} micro-batches and phases ${[...known].join(', ')}`,
        fix: 'remove it, or correct its phase, stage or micro-batch',
        ranks: view.ranks,
        places: phases
          .flatMap((phase) => places.get(phase)!)
          .map((instruction) => ({ role: view.index, instruction })),
      })
    }
  return findings
}

function checkSet(
  view: RoleView,
  method: ScheduleMethod,
  places: Places,
  parts: ReadonlyMap<string, number>,
  stage: number,
  microbatch: number,
): Finding[] {
  const required = [...places].filter(
    ([phase]) => !method.optional.includes(phase) && !method.added.includes(phase),
  )
  // What is done once a step may be done in parts: that they cover the state once is for `state` to say.
  const isRepeated = (phase: string, list: readonly number[]): boolean =>
    !isOncePerStep({ phase }) &&
    (list.length > (parts.get(phase) ?? 1) || countParts(view, list) < list.length || !sameLabels(view, list))
  const isPartly = (phase: string): boolean =>
    !isOncePerStep({ phase }) && countParts(view, places.get(phase) ?? []) < (parts.get(phase) ?? 0)
  const repeated = [...places].some(([phase, list]) => isRepeated(phase, list))
  const complete = method.sets.filter((set) => set.every((phase) => places.has(phase) && !isPartly(phase)))
  if (complete.some((set) => set.length === required.length) && !repeated) return []
  const missing = complete.length === 0
  const found = [...places].map(([phase, list]) => {
    const wanted = isOncePerStep({ phase }) ? 1 : (parts.get(phase) ?? 1)
    if (wanted > 1) return `${list.length} of ${wanted} parts of ${phase}`
    return list.length > 1 ? `${list.length} x ${phase}` : phase
  })
  const wanted = method.sets.map((set) => set.join(', ')).join(' or ')
  return [
    {
      code: missing ? 'ACTION_MISSING' : 'ACTION_REPEATED',
      message: `stage ${stage}, micro-batch ${microbatch} on ${view.role.name}: found ${found.join(', ') || 'nothing'}, a complete step does ${wanted}`,
      fix: missing ? 'add what is missing' : 'do each once: every backward adds to the gradient',
      ranks: view.ranks,
      places: [...places.values()]
        .filter((list) => !repeated || list.length > 1)
        .flat()
        .map((instruction) => ({ role: view.index, instruction })),
      stage,
      microbatch,
    },
  ]
}
