import { operandRows } from '../accesses.ts'
import { formatOperand } from '../text/operands.ts'
import type { GraphTask, MeshAxis, Operand, Region, Role } from '../types.ts'
import { type Finding, isOncePerStep, isSumOfSquares, type RoleView, type VerifyContext } from './finding.ts'
import { type Complain, complaints, type Run } from './findingAt.ts'
import { packBuffer, splitPackBuffer } from './naming.ts'
import { entryRegion, localSegments } from './packs.ts'

/** Runs that are for no micro-batch of the schedule: updates, sums of cotangents, what makes scalars of scalars, kernels. */
export function checkUpdates(context: VerifyContext, view: RoleView): Finding[] {
  const findings: Finding[] = []
  for (const index of view.of('run')) {
    const task = context.program.tasks[view.code.target[index]!]
    const action = view.role.actions[view.actionOf(index)]
    const isOfMicrobatch = action !== undefined && !isOncePerStep(action)
    if (task === undefined || (task.kind === 'graph' && isOfMicrobatch)) continue
    const instruction = view.instruction(index) as Run
    const found = complaints(context, view, index, (complain) => {
      const submesh = context.program.mesh.submeshes[view.role.pipeline] ?? []
      if (task.kind === 'graph') checkRun(view.role, submesh, task, instruction, complain)
      else if (isSumOfSquares(task)) checkName(view.role, instruction.writes[0]!, 'sumOfSquares', complain)
    })
    findings.push(...found)
  }
  return findings
}

function checkRun(
  role: Role,
  submesh: readonly MeshAxis[],
  task: GraphTask,
  run: Run,
  complain: Complain,
): void {
  const { inputs } = task.graph
  if (inputs.some(({ kind }) => kind === 'parameter' || kind === 'state'))
    checkUpdate(role, submesh, task, run, complain)
  else if (inputs.some(({ kind }) => kind === 'cotangent')) checkCotangents(role, run, complain)
  else {
    for (const { name, operand } of tensors(task, run)) checkName(role, operand, name, complain)
  }
}

/** Operands that are single tensors, with the graph's names of them. */
function tensors(
  { graph, reads, writes }: GraphTask,
  run: Run,
): { name: string; kind: string; operand: Operand }[] {
  return [
    ...reads.flatMap((port, index) => {
      if (port.kind !== 'tensor') return []
      const { name, kind } = graph.inputs[port.input]!
      return [{ name, kind, operand: run.reads[index]! }]
    }),
    ...writes.flatMap((port, index) =>
      port.kind === 'tensor'
        ? [{ name: graph.outputs[port.output]!.name, kind: 'output', operand: run.writes[index]! }]
        : [],
    ),
  ]
}

/**
 * An update reads the gradients and every state of one stage, at the same elements, and leaves the next version of each
 * in its own buffer.
 */
function checkUpdate(
  role: Role,
  submesh: readonly MeshAxis[],
  task: GraphTask,
  run: Run,
  complain: Complain,
): void {
  const operands = tensors(task, run)
  const states = operands.filter(({ kind }) => kind === 'parameter' || kind === 'state')
  const names = new Set(states.map(({ name }) => name))
  const first = states[0]?.operand
  if (first === undefined || [...task.reads, ...task.writes].some(({ kind }) => kind !== 'tensor')) {
    complain('BINDING_TASK', 'is neither an action nor an update', 'say which action it is for')
    return
  }
  const place = splitPackBuffer(bufferName(role, first))
  const action = run.action === undefined ? undefined : role.actions[run.action]
  if (action !== undefined && action.stage !== place?.stage)
    complain('BINDING_TASK', `updates stage ${place?.stage}`, 'name the stage whose state it updates')
  const rows = operandRows(role, first)
  for (const { name, kind, operand } of operands) {
    if (kind === 'scalar' || (kind === 'output' && !names.has(name))) {
      checkName(role, operand, name, complain)
      continue
    }
    const version = kind === 'output' ? 1 : kind === 'cotangent' ? undefined : 0
    const wanted = place === undefined ? `${name} of a stage` : packBuffer(name, place.home)
    const shown = formatOperand(role, operand)
    if (bufferName(role, operand) !== wanted)
      complain('BINDING_BUFFER', `has ${shown} as its ${name}`, `name ${wanted} there`)
    const { step, microbatch } = role.values[operand.value]!
    if (step !== version || microbatch !== undefined)
      complain('BINDING_VERSION', `has ${shown} as its ${name}`, 'read this version, write the next')
    const { start, end } = operandRows(role, operand)
    if (start !== rows.start || end !== rows.end)
      complain(
        'BINDING_REGION',
        `has ${shown} beside ${formatOperand(role, first)}`,
        'take the same rows of all',
      )
  }
  const buffer = role.buffers[role.values[first.value]!.buffer]!
  const parts =
    buffer.shard === undefined
      ? buffer.pack?.map((entry) => entryRegion(entry, submesh))
      : localSegments(buffer)
  if (parts !== undefined && !isWholeTensors(parts, rows))
    complain('BINDING_REGION', `cuts a tensor of ${bufferName(role, first)}`, 'update whole tensors')
}

function isWholeTensors(entries: readonly Region[], { start, end }: Region): boolean {
  return entries.every((entry) => !(isInside(start, entry) || isInside(end, entry)))
}

function isInside(row: number, { start, end }: Region): boolean {
  return start < row && row < end
}

/** The cotangents that a value's consumers send are all added, for one micro-batch. */
function checkCotangents(role: Role, run: Run, complain: Complain): void {
  const [sum] = run.writes
  if (sum === undefined) return
  const value = bufferName(role, sum)
  const wanted = role.buffers.map(({ name }) => name).filter((name) => name.startsWith(`${value}@`))
  const read = run.reads.map((operand) => bufferName(role, operand))
  if (!value.startsWith('d.') || wanted.toSorted().join() !== read.toSorted().join())
    complain('BINDING_BUFFER', `makes ${value} of ${read.join(', ')}`, `add ${wanted.join(', ')}`)
  const { microbatch } = role.values[sum.value]!
  if (run.reads.some((operand) => role.values[operand.value]!.microbatch !== microbatch))
    complain('BINDING_MICROBATCH', 'mixes micro-batches', 'add cotangents of one micro-batch')
}

/** The operand is the one value of the buffer of that name. */
function checkName(role: Role, operand: Operand, name: string, complain: Complain): void {
  const instance = role.values[operand.value]
  if (instance === undefined) return
  if (bufferName(role, operand) !== name)
    complain('BINDING_BUFFER', `has ${formatOperand(role, operand)} as its ${name}`, `name ${name} there`)
  if (instance.microbatch !== undefined || instance.step !== undefined)
    complain(
      'BINDING_MICROBATCH',
      `has ${formatOperand(role, operand)} as its ${name}`,
      `name ${name}, which belongs to no micro-batch`,
    )
}

function bufferName(role: Role, operand: Operand): string {
  return role.buffers[role.values[operand.value]?.buffer ?? -1]?.name ?? '?'
}
