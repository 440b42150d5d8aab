import { countParameters } from '../models/index.ts'
import { counted, formatBytes, formatCount, formatSeconds, table } from './format.ts'
import type { Compiled } from './prepare.ts'
import { rankPlace } from './ranks.ts'
import { paint } from './style.ts'
import type { RankTotals, TrainingOutcome, TrainingStart } from './training.ts'

/** One line that says what is about to happen. */
export function startLine({ model, plan, document }: Compiled, start: TrainingStart, steps: number): string {
  const parameters = formatCount(countParameters(model.parameters))
  const from = start.firstStep === 0 ? '' : ` from step ${start.firstStep}`
  return `${model.name}, ${parameters} parameters, ${plan.dtype}, ${counted(plan.ranks.length, 'rank')}; ${counted(steps, 'step')}${from} of ${document.batch.samples} x ${plan.sequence} tokens of ${start.data.description}`
}

/** What a run came to. */
export function outcomeLines(compiled: Compiled, outcome: TrainingOutcome): string[] {
  const { losses, lastLoss, seconds, tokens, unigramEntropy, files } = outcome
  const lines = [
    `${counted(losses.length, 'step')} in ${formatSeconds(seconds)}, ${formatCount(tokens / seconds)} tokens/s`,
    `loss ${lastLoss === undefined ? '-' : paint.bold(lastLoss.toFixed(4))} nats a token; counting tokens alone would reach ${unigramEntropy.toFixed(4)} (unigram entropy of the text)`,
    '',
    ...rankTable(compiled, outcome.ranks),
  ]
  if (files.length > 0) lines.push('', 'written:', ...files.map((file) => `  ${file}`))
  return lines
}

/**
 * Bytes of each rank's buffers and of the workspace of its tasks, and where its time went; then what the whole process
 * took at its peak, which is more: the two are not the same measure.
 */
export function rankTable({ plan }: Compiled, ranks: readonly RankTotals[]): string[] {
  const rows = ranks.map(({ rank, arenaBytes, workspaceBytes, compute, transfer, wait }) => {
    const total = compute + transfer + wait
    const share = (part: number): string => `${total === 0 ? 0 : Math.round((100 * part) / total)}%`
    return [
      String(rank),
      rankPlace(plan, rank),
      formatBytes(arenaBytes + workspaceBytes),
      share(compute),
      share(transfer),
      share(wait),
    ]
  })
  return [
    ...table(['rank', 'place', 'buffers', 'compute', 'transfer', 'wait'], rows),
    `the process has held up to ${formatBytes(peakResidentBytes())} of memory, with Node, ONNX Runtime and the text`,
  ]
}

/** Most memory of this process that was resident at once, in bytes. */
export function peakResidentBytes(): number {
  // In kilobytes, on every system.
  return process.resourceUsage().maxRSS * 1024
}
