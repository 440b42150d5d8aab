import { internalError } from '../base/index.ts'
import type { Phase } from './types.ts'

/**
 * What an action must wait for. Everything that orders a schedule (validation, timing, lowering) follows from these
 * rules and the data flow between stages; there is no other dependence rule.
 */
export interface PhaseDependence {
  /** Any one of them provides it: the first that the schedule has. */
  readonly phases: readonly Phase[]
  /** Of the same stage, or of every stage that feeds it (`upstream`) or that it feeds (`downstream`). */
  readonly stages: 'same' | 'upstream' | 'downstream'
}

export interface PhaseRule {
  readonly letter: Phase
  readonly name: string
  readonly summary: string
  /** Time units of one action where nobody gives a latency. */
  readonly latency: number
  /** Whether a stage does it for each micro-batch, or once a step (its micro-batch is then written 0). */
  readonly per: 'microbatch' | 'step'
  readonly after: readonly PhaseDependence[]
  /** What it does to the number of micro-batches whose activations the stage holds. */
  readonly activations: 1 | 0 | -1
  /** Whether it is half of a backward, of which each lets go of half of an activation (see `peakHeld`). */
  readonly halves?: true
  /** Whether it reads the stage's parameters: on the way forward, or back. Left out: it does not. */
  readonly parameters?: 'F' | 'B'
  /** Whether it adds to the gradients of the stage's parameters. */
  readonly gradients?: true
}

/** Letters are PyTorch's. Unit latencies are those of JaxPP: a backward counts two forwards, its halves one each. */
const rules: readonly PhaseRule[] = [
  {
    letter: 'F',
    name: 'forward',
    summary: 'forward of one micro-batch through the stage',
    latency: 1,
    per: 'microbatch',
    after: [{ phases: ['F'], stages: 'upstream' }],
    activations: 1,
    parameters: 'F',
  },
  {
    letter: 'B',
    name: 'backward',
    summary: 'whole backward: gradients of inputs and of weights',
    latency: 2,
    per: 'microbatch',
    after: [
      { phases: ['F'], stages: 'same' },
      { phases: ['B', 'I'], stages: 'downstream' },
    ],
    activations: -1,
    parameters: 'B',
    gradients: true,
  },
  {
    letter: 'I',
    name: 'backward for inputs',
    summary: 'the half of the backward that other stages wait for',
    latency: 1,
    per: 'microbatch',
    after: [
      { phases: ['F'], stages: 'same' },
      { phases: ['B', 'I'], stages: 'downstream' },
    ],
    activations: 0,
    halves: true,
    parameters: 'B',
  },
  {
    letter: 'W',
    name: 'backward for weights',
    summary: 'the half of the backward that nobody waits for, so it may be put off',
    latency: 1,
    per: 'microbatch',
    after: [{ phases: ['I'], stages: 'same' }],
    activations: -1,
    halves: true,
    gradients: true,
  },
  {
    letter: 'R',
    name: 'recompute',
    summary:
      "what the stage's backward needs of the forward, again; the compiler adds it, no schedule names it",
    latency: 1,
    per: 'microbatch',
    after: [{ phases: ['F'], stages: 'same' }],
    activations: 0,
    parameters: 'B',
  },
  {
    letter: 'A',
    name: 'assist',
    summary: "a piece of another stage's action, done here because there is time: no schedule names it",
    latency: 1,
    per: 'microbatch',
    after: [],
    activations: 0,
  },
  {
    letter: 'P',
    name: 'perturb',
    summary: 'parameters moved along a random direction, to look at the loss there: no schedule names it',
    latency: 0,
    per: 'step',
    after: [],
    activations: 0,
  },
  {
    letter: 'E',
    name: 'evaluate',
    summary: 'forward at perturbed parameters: no schedule names it',
    latency: 1,
    per: 'microbatch',
    after: [],
    activations: 0,
  },
  {
    letter: 'U',
    name: 'update',
    summary: 'optimizer update of the stage, once a step; implied at the end where a schedule leaves it out',
    latency: 0,
    per: 'step',
    after: [{ phases: ['B', 'W'], stages: 'same' }],
    activations: 0,
  },
]

/** Every registered phase, by letter. */
export const phases: ReadonlyMap<Phase, PhaseRule> = new Map(rules.map((rule) => [rule.letter, rule]))

/** Unit latency of a registered phase. */
export function phaseLatency(letter: Phase): number {
  const rule = phases.get(letter)
  if (rule === undefined) throw internalError(`no phase ${letter}`)
  return rule.latency
}

/** A method says which phases make a step complete. */
export interface ScheduleMethod {
  readonly name: string
  readonly summary: string
  /** What each stage does with each micro-batch: exactly one of these sets, each phase once. */
  readonly sets: readonly (readonly Phase[])[]
  /** Phases that may be there besides, once. */
  readonly optional: readonly Phase[]
  /** Phases that the compiler adds where they are needed, at most once each. */
  readonly added: readonly Phase[]
}

const methodRules: readonly ScheduleMethod[] = [
  {
    name: 'gradient',
    summary: 'forward, then backward whole (B) or in halves (I, W)',
    sets: [
      ['F', 'B'],
      ['F', 'I', 'W'],
    ],
    optional: ['U'],
    added: ['R'],
  },
  { name: 'infer', summary: 'forward only', sets: [['F']], optional: [], added: [] },
]

export const methods: ReadonlyMap<string, ScheduleMethod> = new Map(
  methodRules.map((method) => [method.name, method]),
)
