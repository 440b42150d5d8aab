import { availableParallelism } from 'node:os'
import type { Program } from '../program/index.ts'
import type { TimeUnit } from '../scene/index.ts'
import {
  type CostModel,
  type EngineProfile,
  type MeasuredTable,
  measuredCosts,
  phaseCosts,
  readMeasuredTable,
  unitCosts,
} from '../simulate/index.ts'
import { inFile, readCostsJson } from './costsFile.ts'
import { paint } from './style.ts'

/** What things take, and what those times mean. */
export interface LoadedCosts {
  readonly model: CostModel
  readonly unit: TimeUnit
  /** The engine whose times they are. */
  readonly engine: EngineProfile
  /** For a person. */
  readonly description: string
  /** Where they were read: as `--costs` says it. */
  readonly file?: string
  /** What was measured for this. */
  readonly table?: MeasuredTable
}

/**
 * What `--costs` says: `unit`; `measured`, the tasks of this program on this machine; or a file (`-`: standard input),
 * times of phases or a table that was measured before.
 *
 * @throws MeshwrightError `SIMULATE_COSTS` with file and path; what reading the file, or measuring, throws
 */
export async function loadCosts(word: string, program: Program): Promise<LoadedCosts> {
  if (word === 'unit')
    return {
      model: unitCosts(),
      unit: 'units',
      engine: 'independent',
      description: 'unit (phases by their latency, an update 1, communication nothing)',
    }
  if (word === 'measured') return measureHere(program)
  const document = await readCostsJson(word, 'SIMULATE_COSTS', 'such as {"F": 1, "I": 1, "W": 1, "hop": 0}')
  const name = word === '-' ? 'standard input' : word
  return inFile(word, () =>
    isMeasuredTable(document)
      ? { ...measuredBefore(document, name), file: word }
      : {
          model: phaseCosts(document, program.work.stages),
          unit: 'seconds',
          engine: 'independent',
          description: `phases, from ${name}`,
          file: word,
        },
  )
}

function isMeasuredTable(document: unknown): boolean {
  return typeof document === 'object' && document !== null && 'meshwrightCosts' in document
}

function measuredBefore(document: unknown, name: string): LoadedCosts {
  const table = readMeasuredTable(document)
  return {
    model: measuredCosts(table),
    unit: 'seconds',
    engine: 'local',
    description: `measured on ${table.machine.name}, from ${name}`,
  }
}

/** Times the tasks of the program, its messages and collectives, each alone. */
async function measureHere(program: Program): Promise<LoadedCosts> {
  const { coresWarning, measureCosts } = await import('./measureCosts.ts')
  const { describeMachine, loadWarning } = await import('./machine.ts')
  for (const warning of [coresWarning(program, availableParallelism()), loadWarning(describeMachine())])
    if (warning !== undefined) process.stderr.write(`${paint.yellow('note')} ${warning}\n`)
  const table = await measureCosts([program])
  return {
    model: measuredCosts(table),
    unit: 'seconds',
    engine: 'local',
    description: `measured on ${table.machine.name}, just now`,
    table,
  }
}
