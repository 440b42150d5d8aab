import type { Program, Role } from '../types.ts'
import { printRole } from './printRole.ts'
import { printTask } from './printTask.ts'
import { printName } from './tokens.ts'

export interface PrintOptions {
  /** Only these roles, not all. */
  readonly roles?: readonly Role[]
  /** Everything, so that `parseProgram` gives the program back: graphs of tasks and contents of packs as well. */
  readonly full?: boolean
}

/**
 * The text form of a program: what each role does, in order. What is left out unless `full` is said in comments.
 *
 * ```
 * program 1
 * work gradient: 2 stages, 4 microbatches
 * channel slots 2
 *
 * mesh pipeline=0..1: data=2
 * stream compute: compute
 * stream forward: network
 * group data: data
 * task F0: graph                                  # in full: its ports, and its graph in the graph room's text form
 * task A0: missing "partial attention"            # not implemented: what it would do, and the types of its operands
 *
 * role pipeline=0                                 # 2 ranks: 0,1
 *   buffer w0:     f64[792]   x 1 state
 *   buffer tokens: i32[2, 8]  x 2
 *   compute run F0 tokens[0] w0[t] -> x0[0] r0.0..4[0] for F stage 0 m0
 *   forward send #6 x0[0] to pipeline+1 ; free x0[0]
 *   reduce  all-reduce #10 sum g0{0:128} over data
 * ```
 *
 * `x0[0]` is the value of micro-batch 0, `w0[t+1]` what the step leaves of state `w0`, `{0:128}` a range of the first
 * dim, `r0.0..4[0]` five values, ` +=` a write that adds. Slots follow from the order (see slots.ts); `slot x0[1] 2`
 * says so where they do not, and `x 2` how many there are; `with x0` stands where `x0` shares its slots. A line that begins with `->`, `|`, `;` or `for` goes on with the one before.
 */
export function printProgram(program: Program, options: PrintOptions = {}): string {
  const full = options.full ?? false
  const { sharedOver } = program.mesh
  const lines = [
    'program 1',
    printWork(program.work),
    `channel slots ${program.channelSlots}`,
    '',
    ...printMesh(program),
    ...(sharedOver === undefined ? [] : [`devices shared over ${sharedOver.map(printName).join(', ')}`]),
    '',
    ...program.streams.map(
      ({ name, resource, order }) =>
        `stream ${printName(name)}: ${resource}${order === undefined ? '' : ` order ${order}`}`,
    ),
    ...(program.groups.length === 0 ? [] : ['']),
    ...program.groups.map(({ name, axes, pipelines }) => {
      const at = pipelines === undefined ? '' : ` at pipeline ${pipelines.join(', ')}`
      return `group ${printName(name)}: ${axes.map(printName).join(', ')}${at}`
    }),
    ...(full ? [] : ['']),
    ...program.tasks.flatMap((task) => [...(full ? [''] : []), ...printTask(task, full)]),
  ]
  for (const role of options.roles ?? program.roles) lines.push('', ...printRole(program, role, full))
  return `${lines.join('\n')}\n`
}

function printWork({ method, stages, microbatches, slices, phases, until }: Program['work']): string {
  const more = [
    ...(slices === undefined ? [] : [`, ${slices} slices`]),
    ...(phases === undefined ? [] : [`, phases ${phases.map(printName).join(' ')}`]),
    ...(until === undefined ? [] : [`, until ${printName(until)}`]),
  ]
  return `work ${printName(method)}: ${stages} stages, ${microbatches} microbatches${more.join('')}`
}

/** Neighbours with equal axes share a line. */
function printMesh({ mesh }: Program): string[] {
  const texts = mesh.submeshes.map((axes) =>
    axes.map(({ name, size }) => ` ${printName(name)}=${size}`).join(','),
  )
  const lines: string[] = []
  for (let from = 0; from < texts.length; ) {
    let end = from + 1
    while (texts[end] === texts[from]) end++
    lines.push(`mesh pipeline=${from}${end === from + 1 ? '' : `..${end - 1}`}:${texts[from]}`)
    from = end
  }
  return lines
}
