import { readInstruction } from '../columns.ts'
import { roleRanks } from '../mesh.ts'
import type { BufferSpec, Program, Role, Task } from '../types.ts'
import { formatAction, instructionText } from './instruction.ts'

/** The text form of a Program: what each role does, in order. */
export function printProgram(program: Program, options: { readonly roles?: readonly Role[] } = {}): string {
  const lines = [
    'program 1',
    `stages ${program.work.stages}, ${program.work.microbatches} micro-batches`,
    ...program.mesh.submeshes.map(
      (axes, pipeline) =>
        `mesh pipeline=${pipeline}: ${axes.map((axis) => `${axis.name} ${axis.size}`).join(', ')}`,
    ),
    `channel slots ${program.channelSlots}`,
    ...program.streams.map((stream) => `stream ${stream.name}: ${stream.resource}`),
    ...program.groups.map((group) => {
      const at = group.pipelines === undefined ? '' : ` at pipeline ${group.pipelines.join(',')}`
      return `group ${group.name}: ${group.axes.join(',')}${at}`
    }),
    ...program.tasks.map(formatTask),
  ]
  for (const role of options.roles ?? program.roles) lines.push('', ...printRole(program, role))
  return `${lines.join('\n')}\n`
}

function formatTask(task: Task): string {
  if (task.kind === 'kernel') return `task ${task.name}: kernel ${task.kernel}`
  const { graph } = task
  return `task ${task.name}: ${graph.nodes.length} ops, ${graph.inputs.length} inputs, ${graph.outputs.length} outputs, hash ${task.hash}`
}

function printRole(program: Program, role: Role): string[] {
  const ranks = roleRanks(program.mesh, role)
  const lines = [
    `role ${role.name}  # ${ranks.length} rank${ranks.length === 1 ? '' : 's'}: ${abbreviate(ranks)}`,
    ...role.buffers.map((buffer) => `  buffer ${formatBuffer(buffer)}`),
  ]
  const width = Math.max(...program.streams.map((stream) => stream.name.length))
  for (let index = 0; index < role.code.length; index++) {
    const instruction = readInstruction(role.code, index)
    const text = instructionText(program, role, instruction)
    if (instruction.kind === 'free') {
      const last = lines.pop()!
      const [code, comment] = splitComment(last)
      lines.push(comment === '' ? `${code} ; ${text}` : `${code} ; ${text}  ${comment}`)
      continue
    }
    const stream = program.streams[instruction.stream]?.name ?? '?'
    const action =
      instruction.kind === 'run' && instruction.action !== undefined
        ? `  # ${formatAction(role.actions[instruction.action]!)}`
        : ''
    lines.push(`  ${stream.padEnd(width)} ${text}${action}`)
  }
  return lines
}

function splitComment(line: string): [string, string] {
  const at = line.indexOf('  # ')
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 2)]
}

function formatBuffer(buffer: BufferSpec): string {
  const kind = buffer.state === true ? ' state' : buffer.constant === undefined ? '' : ' constant'
  const pack = buffer.pack === undefined ? '' : ` of ${buffer.pack.length} tensors`
  return `${buffer.name}: ${buffer.dtype}[${buffer.shape.join(', ')}] x ${buffer.slots}${kind}${pack}`
}

function abbreviate(ranks: readonly number[]): string {
  const first = ranks[0]!
  const last = ranks.at(-1)!
  if (ranks.length > 2 && last - first === ranks.length - 1) return `${first}..${last}`
  return ranks.length > 8 ? `${ranks.slice(0, 8).join(',')},…` : ranks.join(',')
}
