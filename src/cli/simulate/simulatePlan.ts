import { type EngineProfile, type SimulationResult, simulateProgram } from '../../simulate/index.ts'
import { type LoadedCosts, loadCosts } from '../costs.ts'
import { inFile } from '../costsFile.ts'
import { type Compiled, compile, lowerVerified } from '../prepare.ts'
import { Progress } from '../progress.ts'
import type { LoadedPlan } from '../setup.ts'
import { groupRanks, type Row } from './rows.ts'

/** A plan, and what one step of it would be. */
export interface Simulated {
  readonly source: string
  readonly compiled: Compiled
  readonly costs: LoadedCosts
  readonly result: SimulationResult
  readonly rows: readonly Row[]
  /** The row with the highest peak. */
  readonly fullest: Row
}

export async function simulatePlan(
  loaded: LoadedPlan,
  options: { readonly costs: string; readonly engine?: EngineProfile },
): Promise<Simulated> {
  const progress = new Progress('simulate', true)
  try {
    progress.update(0, 'compiling and verifying')
    const compiled = compile(loaded)
    // A plan that does not fit is simulated all the same: what holds its peak is worth seeing.
    const program = lowerVerified(compiled, { withinBudget: false })
    const costs = await loadCosts(options.costs, program)
    progress.update(0, 'simulating')
    const result = inFile(costs.file, () =>
      simulateProgram(program, costs.model, { engine: options.engine ?? costs.engine }),
    )
    const rows = groupRanks(result)
    const fullest = rows.reduce((most, row) => (row.result.peakBytes > most.result.peakBytes ? row : most))
    return { source: loaded.source, compiled, costs, result, rows, fullest }
  } finally {
    progress.clear()
  }
}
