import { MeshwrightError } from '../base/index.ts'
import type { Program } from '../program/index.ts'
import type { TimeUnit } from '../scene/index.ts'
import {
  type CostModel,
  type EngineProfile,
  measuredCosts,
  phaseCosts,
  readMeasuredTable,
  unitCosts,
} from '../simulate/index.ts'
import { inFile, readCostsJson } from './costsFile.ts'
import type { Compiled } from './prepare.ts'

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
}

/**
 * What `--costs` says: `unit`; `measured`, the tasks of this program on this machine; or a file (`-`: standard input),
 * times of phases or a table that was measured before.
 *
 * @throws MeshwrightError `SIMULATE_COSTS` with file and path; what reading the file throws
 */
export async function loadCosts(word: string, program: Program, compiled: Compiled): Promise<LoadedCosts> {
  if (word === 'unit')
    return {
      model: unitCosts(),
      unit: 'units',
      engine: 'independent',
      description: 'unit (phases by their latency, an update 1, communication nothing)',
    }
  if (word === 'measured') return measureHere(program, compiled)
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

/** Runs the tasks of the program alone and takes their times. */
function measureHere(_program: Program, _compiled: Compiled): Promise<LoadedCosts> {
  throw new MeshwrightError('SIMULATE_COSTS', 'costs cannot be measured yet', {
    hint: 'give --costs a file, or unit',
  })
}
