import { readCosts, type StageCosts } from '../../src/schedule/index.ts'

/** Schedules whose rates are printed. `zb-1p` and `zb-2p` were found by a search, under the memory of 1F1B and twice it. */
export type PublishedSchedule = '1f1b' | 'interleaved-1f1b' | 'zb-h1' | 'zb-h2' | 'zb-1p' | 'zb-2p'

/** One row of Qi et al. 2023 (arXiv 2401.10241), tables 4 to 6. */
export interface PublishedSetting {
  readonly model: string
  readonly stages: number
  readonly microbatches: number
  /** Milliseconds of one stage and one micro-batch, and of a hop. The paper calls I `B`. */
  readonly times: { readonly F: number; readonly I: number; readonly W: number; readonly hop: number }
  /** Of each actor, where chunks are interleaved: a chunk then takes a stage's times by their number. */
  readonly chunks: number
  /** 1 - work / (longest time from a stage's first to its last pass), rounded to four digits. */
  readonly rates: Readonly<Record<PublishedSchedule, number>>
}

export const publishedSettings: readonly PublishedSetting[] = [
  {
    model: 'GPT-1.5B',
    stages: 8,
    microbatches: 24,
    times: { F: 18.522, I: 18.086, W: 9.337, hop: 0.601 },
    chunks: 3,
    rates: {
      '1f1b': 0.2431,
      'interleaved-1f1b': 0.1055,
      'zb-h1': 0.1585,
      'zb-h2': 0.1083,
      'zb-1p': 0.1585,
      'zb-2p': 0.0433,
    },
  },
  {
    model: 'GPT-1.5B',
    stages: 8,
    microbatches: 64,
    times: { F: 18.546, I: 18.097, W: 9.321, hop: 0.762 },
    chunks: 3,
    rates: {
      '1f1b': 0.124,
      'interleaved-1f1b': 0.0443,
      'zb-h1': 0.0674,
      'zb-h2': 0.0444,
      'zb-1p': 0.0674,
      'zb-2p': 0.0026,
    },
  },
  {
    model: 'GPT-6.2B',
    stages: 8,
    microbatches: 32,
    times: { F: 29.802, I: 29.428, W: 19.53, hop: 0.577 },
    chunks: 4,
    rates: {
      '1f1b': 0.1898,
      'interleaved-1f1b': 0.0628,
      'zb-h1': 0.1045,
      'zb-h2': 0.0559,
      'zb-1p': 0.1045,
      'zb-2p': 0.0022,
    },
  },
  {
    model: 'GPT-14.6B',
    stages: 16,
    microbatches: 48,
    times: { F: 11.347, I: 11.248, W: 8.132, hop: 0.377 },
    chunks: 3,
    rates: {
      '1f1b': 0.2552,
      'interleaved-1f1b': 0.1104,
      'zb-h1': 0.1397,
      'zb-h2': 0.0672,
      'zb-1p': 0.1397,
      'zb-2p': 0.0066,
    },
  },
  {
    model: 'GPT-14.6B',
    stages: 16,
    microbatches: 128,
    times: { F: 11.325, I: 11.308, W: 8.109, hop: 0.378 },
    chunks: 3,
    rates: {
      '1f1b': 0.1251,
      'interleaved-1f1b': 0.0445,
      'zb-h1': 0.0576,
      'zb-h2': 0.0266,
      'zb-1p': 0.0576,
      'zb-2p': 0.0028,
    },
  },
  {
    model: 'GPT-28.3B',
    stages: 32,
    microbatches: 128,
    times: { F: 10.408, I: 10.204, W: 7.703, hop: 0.408 },
    chunks: 2,
    rates: {
      '1f1b': 0.2168,
      'interleaved-1f1b': 0.1164,
      'zb-h1': 0.1106,
      'zb-h2': 0.049,
      'zb-1p': 0.1106,
      'zb-2p': 0.0029,
    },
  },
]

/** Costs of a setting's stages, each cut into so many chunks. */
export function costsOfSetting({ stages, times }: PublishedSetting, chunks = 1): StageCosts {
  const { F, I, W, hop } = times
  return readCosts({ F: F / chunks, I: I / chunks, W: W / chunks, hop }, stages * chunks)
}
