import { formatSeconds } from '../format.ts'
import { markdownTable } from '../markdown.ts'
import { shareNames } from './shares.ts'
import type { AccuracyReport, PlanAccuracy } from './types.ts'

/** A flag of the command as its help says it. */
export type AccuracyFlag = readonly [flags: string, description: string]

/** The page of a report, whole. */
export function accuracyPage(report: AccuracyReport, flags: readonly AccuracyFlag[]): string {
  const { size, plans, medianError } = report
  const worst = Math.max(...plans.map(({ error }) => Math.abs(error)))
  return `${[
    '# Accuracy of predictions on this machine',
    `Written by \`meshwright accuracy\` on ${report.date.slice(0, 10)}, in ${formatSeconds(report.seconds)}. Do not edit: run it again.`,
    `Training steps of a GPT of ${size.layers} layers, hidden ${size.hidden}, ${size.heads} heads, ${size.samples} samples of ${size.sequence} tokens, f32, on two ranks: predicted from the times of single tasks, then measured. **Median error ${percent(medianError)}, largest ${percent(worst)}.**`,
    machineSection(report),
    '## Predicted and measured',
    errorTable(plans),
    'Measured: the median of the rounds, with its quartiles. Error: predicted over measured, less 1; above 0, the step was faster than predicted.',
    '## Where the error comes from',
    shareTable(plans),
    'Milliseconds of a step, predicted / measured, the mean over the two ranks. Compute: tasks. Transfer: copies of messages while no task runs, and moves. Collective: from when the last member has come. Rest: waiting for the other rank, and what belongs to no instruction. The last column is the difference of the largest part, as a share of the measured step.',
    methodSection(report),
    flagSection(flags),
  ].join('\n\n')}\n`
}

function machineSection({ machine, coresOfOthers, versions }: AccuracyReport): string {
  const rows = [
    ['Processor', `${machine.processor}, ${machine.cores} cores`],
    ['Memory', `${(machine.memoryBytes / 2 ** 30).toFixed(0)} GiB`],
    ['System', machine.system],
    ['Load when it began', machine.load.toFixed(2)],
    ['Cores used by others meanwhile', coresOfOthers.toFixed(2)],
    ['Meshwright', versions.meshwright],
    ['Node', versions.node],
    ['ONNX Runtime', versions.onnxRuntime],
  ]
  return markdownTable(['machine', ''], rows, () => false)
}

export function errorTable(plans: readonly PlanAccuracy[]): string {
  return markdownTable(
    ['schedule', 'ranks', 'ZeRO', 'recompute', 'predicted, ms', 'measured, ms', 'quartiles', 'error'],
    plans.map(({ plan, predictedSeconds, measuredSeconds: { median, low, high }, error }) => [
      plan.schedule,
      plan.mesh,
      plan.zero,
      plan.recompute,
      milliseconds(predictedSeconds),
      milliseconds(median),
      `${milliseconds(low)}–${milliseconds(high)}`,
      signed(error),
    ]),
    (column) => column >= 4,
  )
}

function shareTable(plans: readonly PlanAccuracy[]): string {
  return markdownTable(
    ['schedule', 'ranks', 'ZeRO', ...shareNames, 'most of the error'],
    plans.map((one) => [
      one.plan.schedule,
      one.plan.mesh,
      one.plan.zero,
      ...shareNames.map(
        (name) => `${milliseconds(one.shares.predicted[name])} / ${milliseconds(one.shares.measured[name])}`,
      ),
      largestPart(one),
    ]),
    (column) => column >= 3,
  )
}

/** The part whose difference is largest, with that as a share of the step. */
export function largestPart({ shares, measuredSeconds }: PlanAccuracy): string {
  const differences = shareNames.map((name) => ({
    name,
    share: (shares.predicted[name] - shares.measured[name]) / measuredSeconds.median,
  }))
  const { name, share } = differences.reduce((best, one) =>
    Math.abs(one.share) > Math.abs(best.share) ? one : best,
  )
  return `${name} ${signed(share)}`
}

function methodSection({ costs, rounds, stepsPerRound }: AccuracyReport): string {
  return `## How it is done

- Every task of the plans (${Object.keys(costs.tasks).length} different ones) is timed alone: one after the other in the local engine's own worker threads and sessions, on both ranks at once, without transfers, collectives or schedule. Messages and collectives of the plans' sizes are timed between ranks that do nothing else. All plans are predicted from that one table, in which a task has one time.
- The prediction is \`meshwright simulate\` with the profile \`local\`: one thread a rank that goes through its list, transfers as copies of both ends, collectives from the last that comes.
- Only then the plans run, in turns of ${stepsPerRound} steps, who begins moving on by one each round, ${rounds} rounds; the first rounds are not counted. A time is that of the whole step as its caller sees it; the median of the rounds' medians.
- A step is batch in, forward, backward, reduction, clipping, AdamW, loss out.

## To measure it yourself

\`\`\`
npx meshwright accuracy
npx meshwright accuracy --out docs/accuracy.md
npx meshwright accuracy --quick
\`\`\`

\`--json\` gives the figures. Let nothing else run meanwhile: ranks must not outnumber cores, and tasks are timed on a machine that is as busy as the plan makes it.`
}

/** Between the marks that every page of a command has. */
function flagSection(flags: readonly AccuracyFlag[]): string {
  const rows = flags.map(([flag, description]) => `| \`${flag}\` | ${description} |`)
  return `<!-- generated: flags of accuracy -->

| argument or flag | meaning |
| --- | --- |
${rows.join('\n')}

<!-- end -->`
}

function milliseconds(seconds: number): string {
  const value = seconds * 1000
  return value.toFixed(Math.abs(value) < 100 ? 1 : 0)
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}

function signed(share: number): string {
  return `${share < 0 ? '' : '+'}${percent(share)}`
}
