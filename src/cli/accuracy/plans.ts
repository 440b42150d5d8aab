/** A plan whose time is predicted and then measured. */
export interface AccuracyPlan {
  readonly name: string
  /** What it tries out, for the table. */
  readonly schedule: string
  readonly zero: string
  readonly recompute: 'none' | 'attention' | 'full'
  readonly mesh: 'pipeline 2' | 'data 2'
  readonly document: string
}

export interface AccuracySize {
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  readonly sequence: number
  readonly samples: number
}

/** A step takes about 100 to 200 ms of two cores. */
export const fullSize: AccuracySize = { layers: 4, hidden: 256, heads: 4, sequence: 128, samples: 16 }
export const quickSize: AccuracySize = { layers: 4, hidden: 128, heads: 4, sequence: 128, samples: 16 }

type Draft = Pick<AccuracyPlan, 'recompute' | 'mesh'> & {
  readonly schedule: string
  readonly parameters?: string
  readonly stage?: 0 | 1 | 2 | 3
  readonly microbatches: number
}

/** Every kind of schedule on two actors, every stage of ZeRO on two replicas, every recomputation. */
const drafts: readonly Draft[] = [
  { schedule: '1f1b', mesh: 'pipeline 2', recompute: 'none', microbatches: 8 },
  { schedule: 'gpipe', mesh: 'pipeline 2', recompute: 'full', microbatches: 8 },
  {
    schedule: 'interleaved-1f1b',
    parameters: 'chunks: 2',
    mesh: 'pipeline 2',
    recompute: 'attention',
    microbatches: 8,
  },
  { schedule: 'zb-h1', mesh: 'pipeline 2', recompute: 'none', microbatches: 8 },
  {
    schedule: 'zeropp',
    parameters: 'chunks: 2, unit: 4',
    mesh: 'pipeline 2',
    recompute: 'none',
    microbatches: 8,
  },
  { schedule: '1f1b', mesh: 'data 2', recompute: 'attention', stage: 0, microbatches: 4 },
  { schedule: '1f1b', mesh: 'data 2', recompute: 'none', stage: 1, microbatches: 4 },
  { schedule: 'gpipe', mesh: 'data 2', recompute: 'full', stage: 2, microbatches: 4 },
  {
    schedule: 'looped-bfs',
    parameters: 'chunks: 2',
    mesh: 'data 2',
    recompute: 'none',
    stage: 3,
    microbatches: 4,
  },
]

export function accuracyPlans(size: AccuracySize): AccuracyPlan[] {
  const { layers, hidden, heads, sequence, samples } = size
  return drafts.map((draft) => {
    const { schedule, parameters, mesh, recompute, stage = 0, microbatches } = draft
    const [axis, count] = mesh.split(' ')
    const named = parameters === undefined ? schedule : `{ name: ${schedule}, ${parameters} }`
    const document = `meshwright: 1
model: gpt:layers=${layers},hidden=${hidden},heads=${heads},context=${sequence}
mesh: { ${axis}: ${count} }
schedule: ${named}
batch: { samples: ${samples}, microbatches: ${microbatches} }
zero: ${stage}
recompute: ${recompute}
`
    const name = [mesh, parameters === undefined ? schedule : `${schedule} (${parameters})`].join(', ')
    return {
      name,
      schedule: parameters === undefined ? schedule : `${schedule}, ${parameters}`,
      zero: String(stage),
      recompute,
      mesh,
      document,
    }
  })
}
