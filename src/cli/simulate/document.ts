import type { MeshwrightError } from '../../base/index.ts'
import { type SimulationResult, simulationDocument } from '../../simulate/index.ts'
import { errorDocument } from '../errors.ts'
import type { Simulated } from './simulatePlan.ts'
import { criticalParts, criticalReasons, idleShares, transfersOf } from './summary.ts'

/** Transfers that are listed. */
const listedTransfers = 20

/** The `--json` form: what a simulation gives, and what was simulated. */
export function simulateDocument({
  source,
  compiled,
  costs,
  result,
  rows,
}: Simulated): Record<string, unknown> {
  const { ranks, criticalPath, ...rest } = simulationDocument(result) as SimulationDocument
  return {
    schemaVersion: 1,
    ok: true,
    source,
    plan: planDocument({ compiled, result }),
    timeUnit: costs.unit,
    costsDescription: costs.description,
    ...rest,
    idleShares: idleShares(result),
    ranks: ranks.map((rank, index) => ({
      ...rank,
      role: result.program.roles[result.ranks[index]!.role]!.name,
    })),
    criticalPath: {
      ...criticalPath,
      parts: criticalParts(result),
      secondsByReason: criticalReasons(result),
    },
    transfers: transfersOf(result, rows, listedTransfers),
  }
}

type SimulationDocument = Readonly<Record<string, unknown>> & {
  readonly ranks: readonly Readonly<Record<string, unknown>>[]
  readonly criticalPath: Readonly<Record<string, unknown>>
}

function planDocument({ compiled, result }: Pick<Simulated, 'compiled' | 'result'>): Record<string, unknown> {
  const { plan, model, document } = compiled
  const { program } = result
  return {
    model: model.name,
    mesh: program.mesh.submeshes,
    ranks: plan.ranks.length,
    stages: plan.stages.map(({ actor, layers, replicas }) => ({ actor, layers, replicas })),
    schedule: 'name' in document.schedule ? document.schedule.name : null,
    microbatches: plan.microbatches,
    samples: plan.samples,
    sequence: plan.sequence,
    dtype: plan.dtype,
    zero: plan.zero?.stage ?? 0,
    deviceBytes: plan.deviceBytes,
    fits: plan.deviceBytes === null ? null : fitting(result, plan.deviceBytes),
    roles: program.roles.length,
    tasks: program.tasks.length,
  }
}

/** Whether what is allocated fits on every rank: what `check` asks. */
export function fitting({ ranks }: SimulationResult, deviceBytes: number): boolean {
  return ranks.every(({ arenaBytes }) => arenaBytes <= deviceBytes)
}

export function errorReport(error: MeshwrightError): Record<string, unknown> {
  return { schemaVersion: 1, ok: false, errors: [errorDocument(error)] }
}
