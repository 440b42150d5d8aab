import { columnAccess, columnKinds, visitColumnAccesses } from '../columnAccesses.ts'
import { packBases } from '../packNames.ts'
import type { BufferSpec } from '../types.ts'
import type { Finding, InstructionPlace, RoleView, VerifyContext } from './finding.ts'
import { findingAt } from './findingAt.ts'
import { splitPackBuffer } from './naming.ts'

/** What a step gives beside its state, where it makes it. */
const results: readonly string[] = ['loss', 'gradientNorm']

/** Ports are filled from, and fill, the buffers of their names; every result leaves the step once. */
export function checkOutside(context: VerifyContext): Finding[] {
  const made = new Set(context.roles.flatMap(madeNames))
  const findings: Finding[] = []
  for (const view of context.roles)
    for (const [index, instruction] of view.each('move')) {
      const { role } = view
      const instance = role.values[instruction.value]
      const buffer = role.buffers[instance?.buffer ?? -1]
      if (instance === undefined || buffer === undefined) continue
      const { port, direction } = instruction
      const isIts = port === 'gradients' && direction === 'out' ? isGradients(buffer) : buffer.name === port
      if (!isIts || instance.step !== undefined)
        findings.push(
          findingAt(
            context,
            view,
            index,
            'PORT_BUFFER',
            'names another buffer than its port',
            `name ${port}`,
          ),
        )
      else if (direction === 'in' && made.has(port))
        findings.push(
          findingAt(
            context,
            view,
            index,
            'PORT_MADE',
            `takes ${port} from outside, though the program makes it`,
            'let all ranks take it from outside, or all make it',
          ),
        )
    }
  return [
    ...findings,
    ...results.flatMap((port) => checkResult(context, port, ({ name }) => name === port, made.has(port))),
    ...checkGradients(context),
  ]
}

/** Names of buffers that runs and receives write. */
function madeNames({ role, code, values }: RoleView): string[] {
  const buffers = new Set<number>()
  const visit = (value: number, _region: number, access: number): void => {
    if (access !== columnAccess.read) buffers.add(values.buffer[value] ?? -1)
  }
  for (let index = 0; index < code.length; index++)
    if (code.kind[index] === columnKinds.run || code.kind[index] === columnKinds.exchange)
      visitColumnAccesses(code, index, visit)
  return [...buffers].flatMap((buffer) => role.buffers[buffer]?.name ?? [])
}

/** Exactly one stage gives a result: all of its replicas, once. */
function checkResult(
  { roles }: VerifyContext,
  port: string,
  isResult: (buffer: BufferSpec) => boolean,
  isMade: boolean,
): Finding[] {
  if (!isMade) return []
  const gives = roles.map((view) => givenPlaces(view, port, isResult))
  const givers = new Set(
    roles.flatMap(({ role }, index) => (gives[index]!.length > 0 ? [role.pipeline] : [])),
  )
  const [giver] = givers
  const complain = (code: string, what: string, fix: string): Finding => ({
    code,
    message: `${port} ${what}`,
    fix,
    ranks: roles.filter(({ role }) => givers.has(role.pipeline)).flatMap((view) => view.ranks),
    places: gives.flat(),
  })
  if (giver === undefined)
    return [complain('PORT_MISSING', 'is made and never given', `move it out to ${port}`)]
  const counts = roles.flatMap(({ role }, index) => (role.pipeline === giver ? [gives[index]!.length] : []))
  if (counts.includes(0))
    return [complain('PORT_MISSING', 'is given by some replicas only', 'let all replicas give it')]
  if (givers.size > 1 || counts.some((count) => count > 1))
    return [complain('PORT_REPEATED', 'is given more than once', 'let one stage give it, once')]
  return []
}

/** All gradients leave the step, or none. */
function checkGradients({ roles }: VerifyContext): Finding[] {
  const port = 'gradients'
  const asked = roles.some((view) => givenPlaces(view, port, isGradients).length > 0)
  if (!asked) return []
  return roles.flatMap((view) =>
    view.role.buffers.filter(isGradients).flatMap((buffer): Finding[] => {
      const places = givenPlaces(view, port, (candidate) => candidate === buffer)
      if (places.length === 1) return []
      const missing = places.length === 0
      return [
        {
          code: missing ? 'PORT_MISSING' : 'PORT_REPEATED',
          message: `${view.role.name} gives ${buffer.name} ${missing ? 'to no port, though others give theirs' : 'more than once'}`,
          fix: 'move it out to gradients once',
          ranks: view.ranks,
          places,
        },
      ]
    }),
  )
}

function givenPlaces(
  view: RoleView,
  port: string,
  test: (buffer: BufferSpec) => boolean,
): InstructionPlace[] {
  const { role } = view
  const places: InstructionPlace[] = []
  for (const [index, { direction, port: given, value }] of view.each('move')) {
    const buffer = role.buffers[role.values[value]?.buffer ?? -1]
    if (direction === 'out' && given === port && buffer !== undefined && test(buffer))
      places.push({ role: view.index, instruction: index })
  }
  return places
}

/** Gradients of a stage's parameters. */
export function isGradients({ name, state, pack }: BufferSpec): boolean {
  return pack !== undefined && state !== true && splitPackBuffer(name)?.base === packBases.gradients
}
