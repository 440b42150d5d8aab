import type { Finding, VerifyContext } from './finding.ts'
import { rankList } from './finding.ts'

/** Every rank of the mesh follows exactly one role. */
export function checkRoles({ program, roles }: VerifyContext): Finding[] {
  const findings: Finding[] = []
  let first = 0
  program.mesh.submeshes.forEach((axes, pipeline) => {
    const count = axes.reduce((product, { size }) => product * size, 1)
    const followed = new Map<number, string[]>()
    for (const { role, ranks } of roles)
      if (role.pipeline === pipeline)
        for (const rank of ranks) followed.set(rank, [...(followed.get(rank) ?? []), role.name])
    const idle = Array.from({ length: count }, (_, index) => first + index).filter(
      (rank) => !followed.has(rank),
    )
    const torn = [...followed].filter(([, names]) => names.length > 1)
    if (idle.length > 0)
      findings.push({
        code: 'ROLE_MISSING',
        message: `${rankList(idle)} at pipeline=${pipeline} would do nothing: no role is theirs`,
        fix: 'give them a role, or make the mesh smaller',
        ranks: idle,
        places: [],
      })
    if (torn.length > 0)
      findings.push({
        code: 'ROLE_REPEATED',
        message: `${rankList(torn.map(([rank]) => rank))} would follow several roles: ${torn[0]![1].join(', ')}`,
        fix: 'tell the roles apart by the coordinates of their ranks',
        ranks: torn.map(([rank]) => rank),
        places: [],
      })
    first += count
  })
  return findings
}
