import {
  coordinatesOf,
  type GraphTask,
  heldRanges,
  type Instruction,
  type Operand,
  operandElements,
  type Program,
  type Role,
  wholeElement,
} from '../program/index.ts'

type Run = Extract<Instruction, { kind: 'run' }>

/** A run on one rank, of which messages speak. */
export interface RunPlace {
  readonly program: Pick<Program, 'mesh'>
  readonly role: Role
  readonly rank: number
  readonly run: Run
  readonly task: GraphTask
}

/** What a person calls an element of an input of the run's graph: of a tensor in a pack its element of the whole tensor. */
export function inputElement(place: RunPlace, input: number, element: number): string {
  const { run, task } = place
  for (const [index, port] of task.reads.entries()) {
    if (port.kind === 'ids') continue
    const entries = port.kind === 'pack' ? port.entries : [{ input: port.input, offset: 0 }]
    const found = entries.find((entry) => entry.input === input)
    if (found !== undefined)
      return elementName(place, run.reads[index]!, found.offset + element, element, port.kind === 'tensor')
  }
  return `element ${element}`
}

/** The same of an output. */
export function outputElement(place: RunPlace, output: number, element: number): string {
  const { run, task } = place
  for (const [index, port] of task.writes.entries()) {
    const entries = port.kind === 'pack' ? port.entries : [{ output: port.output, offset: 0 }]
    const found = entries.find((entry) => entry.output === output)
    if (found !== undefined)
      return elementName(place, run.writes[index]!, found.offset + element, element, port.kind === 'tensor')
  }
  return `element ${element}`
}

/** `inOperand` elements into an operand; `named`: the tensor's name is not known from elsewhere. */
function elementName(
  { program, role, rank }: RunPlace,
  operand: Operand,
  inOperand: number,
  element: number,
  named: boolean,
): string {
  const buffer = role.buffers[role.values[operand.value]!.buffer]!
  const own = coordinatesOf(program.mesh, rank)
  const submesh = program.mesh.submeshes[own.pipeline]!
  const at = operandElements(role, operand).start + inOperand
  const range = heldRanges(buffer, submesh, own.axes).find(
    ({ start, end, local }) => local <= at && at < local + end - start,
  )
  const whole =
    range === undefined
      ? undefined
      : wholeElement(range.entry, submesh, own.axes, range.start + at - range.local)
  if (range === undefined || whole === undefined) return `element ${element}`
  return `element ${whole}${named ? ` of ${range.entry.name}` : ''}`
}
