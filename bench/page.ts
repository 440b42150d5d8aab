import { formatSeconds } from '../src/cli/format.ts'
import { markdownTable } from '../src/cli/markdown.ts'
import { stepOperations } from './cases.ts'
import { geometricMean } from './statistics.ts'
import {
  type CaseResult,
  type Part,
  type ProductResult,
  parts,
  type Report,
  type SideTimes,
  type Spread,
} from './types.ts'

const titles: Readonly<Record<Part, string>> = {
  a: '(a) One rank against PyTorch eager, one thread',
  b: '(b) Data 2 against DistributedDataParallel under torchrun, one thread a process',
  c: '(c) Pipeline 2, 1F1B, against torch.distributed.pipelining under torchrun, one thread a process',
  d: '(d) Layers cut over the ranks, against parallelize_module under torchrun, one thread a process',
}

/** What each part's samples and peers are; ratios need their terms. */
const explanations: Readonly<Record<Part, string>> = {
  a: "Equal products: what the ratio would be if PyTorch multiplied matrices as fast as ONNX Runtime does. An estimate: from the operations of a step, and the rate of the feed-forward layer's product, measured on both sides between the steps. Overhead: step time outside tasks, as a share of the time inside them.",
  b: 'Gradients are averaged over gloo, in the buckets that DistributedDataParallel makes by default; `gradient_as_bucket_view` and `static_graph` are on, with which it is fastest.',
  c: 'Both cut the layers alike. The tied embedding lives on both stages; its gradients are summed over gloo before the update.',
  d: 'A Llama of four layers, 8 heads of queries and 4 of keys and values, head of its own. On the same samples whatever the ranks: rows of one rank say what cutting gains. PyTorch cuts linear layers by column, then by row, the embedding and the loss by vocabulary, and does one reduction for all the linear layers that read the same values, forward and backward, over gloo. Sequence cut: what lies between the cut layers is cut by positions (SequenceParallel). Overhead: step time outside tasks, collectives among it, as a share of the time inside them.',
}

/** The page of a report, whole. */
export function benchmarkPage(report: Report): string {
  const sections = parts.flatMap((part) => {
    const results = report.results.filter((result) => result.case.part === part)
    return results.length === 0 ? [] : [partSection(part, results)]
  })
  return `${[
    '# Benchmarks',
    `Written by \`npm run bench:engine\` on ${report.date.slice(0, 10)}, in ${formatSeconds(report.seconds)}. Do not edit: run it again.`,
    "A whole training step of a GPT-2 of four layers (head tied to the embedding, tanh GELU, AdamW, f32; in (d) of a Llama), by Meshwright's local engine and by PyTorch, from the same weights on the same tokens. **Ratio** is our time over PyTorch's: below 1, Meshwright is faster.",
    machineSection(report),
    productSection(report.product, report.machine.processor),
    ...sections,
    methodSection(report),
  ].join('\n\n')}\n`
}

function machineSection({ machine, versions }: Report): string {
  const gib = (machine.memoryBytes / 2 ** 30).toFixed(0)
  const rows = [
    ['Processor', `${machine.processor}, ${machine.cores} cores`],
    ['Memory', `${gib} GiB`],
    ['System', machine.system],
    ['Load when it began', machine.load.toFixed(2)],
    ['Node', versions.node],
    ['ONNX Runtime', versions.onnxRuntime],
    ['PyTorch', versions.torch],
  ]
  return markdownTable(['machine', ''], rows, () => false)
}

function productSection({ sizes, ours, torch }: ProductResult, processor: string): string {
  const [m, k, n] = sizes
  const gigas = (rate: number): string => (rate / 1e9).toFixed(0)
  const text = `## What the libraries below give

Most of a step is matrix products, and neither side multiplies matrices itself: Meshwright calls ONNX Runtime's own kernels, PyTorch calls Intel's MKL, which chooses its kernels by the maker of the processor. One ${m} x ${k} x ${n} product in f32 on one thread of this machine: **${gigas(ours)} GFLOP/s in ONNX Runtime, ${gigas(torch)} in PyTorch**.`
  return `${text} ${productMeaning(ours / torch, processor)}`
}

function productMeaning(quotient: number, processor: string): string {
  const times = Math.max(quotient, 1 / quotient).toFixed(2)
  if (quotient > 1.05) {
    const why = /\bAMD\b/i.test(processor)
      ? " The processor is AMD's, for which MKL does not choose its fastest kernels."
      : ''
    return `ONNX Runtime is ${times} times as fast.${why} That much of the ratios below is the libraries' difference and not the engine's: where MKL runs its fastest kernels, expect higher ratios. The column "equal products" in (a) estimates them.`
  }
  if (quotient < 0.95)
    return `PyTorch is ${times} times as fast, which the ratios below include: it is the libraries' difference and not the engine's.`
  return 'They are equally fast here, so the ratios below are about everything else.'
}

/**
 * Our time over PyTorch's if its matrix products ran at the rate of ours: an estimate, since a step's products are of
 * many sizes. Undefined where the rates do not fit the times.
 */
export function ratioAtEqualProducts(result: CaseResult): number | undefined {
  const { product } = result
  if (product === null) return undefined
  const operations = stepOperations(result.case.shape)
  const torch = result.torch.default.seconds.median
  const adjusted = torch - operations / product.torch + operations / product.ours
  return adjusted > 0 ? (result.ratio.default.median * torch) / adjusted : undefined
}

type Column = readonly [title: string, cell: (result: CaseResult) => string]

function partSection(part: Part, results: readonly CaseResult[]): string {
  const memory = results.every(
    ({ ours, torch }) => ours.peakBytes !== null && torch.default.peakBytes !== null,
  )
  const columns: readonly Column[] = [
    ['hidden', ({ case: { shape } }) => String(shape.hidden)],
    ['sequence', ({ case: { shape } }) => String(shape.sequence)],
    ['vocab', ({ case: { shape } }) => String(shape.vocab)],
    ['samples', ({ case: { shape } }) => String(shape.samples)],
    ...(part === 'c'
      ? ([
          ['micro-batches', ({ case: { microbatches } }) => String(microbatches)],
          ['layers', ({ stages }) => stages.join(' + ')],
        ] satisfies Column[])
      : []),
    ...(part === 'd'
      ? ([
          ['ranks', ({ case: { ranks } }) => String(ranks)],
          ['sequence cut', ({ case: { sequenceParallel } }) => (sequenceParallel ? 'yes' : '')],
        ] satisfies Column[])
      : []),
    ['ours, ms', ({ ours }) => milliseconds(ours)],
    ['PyTorch, ms', ({ torch }) => milliseconds(torch.default)],
    ['fused AdamW, ms', ({ torch }) => milliseconds(torch.fused)],
    ['ratio', ({ ratio }) => formatSpread(ratio.default)],
    ['ratio, fused', ({ ratio }) => formatSpread(ratio.fused)],
    ...(part === 'a'
      ? ([['equal products', (result) => ratioAtEqualProducts(result)?.toFixed(2) ?? '']] satisfies Column[])
      : []),
    ...(part === 'a' || part === 'd'
      ? ([['overhead', ({ overhead }) => `${(overhead * 100).toFixed(1)} %`]] satisfies Column[])
      : []),
    ...(memory
      ? ([
          ['ours, MiB', ({ ours }) => mebibytes(ours)],
          ['PyTorch, MiB', ({ torch }) => mebibytes(torch.default)],
        ] satisfies Column[])
      : []),
  ]
  const table = markdownTable(
    columns.map(([title]) => title),
    results.map((result) => columns.map(([, cell]) => cell(result))),
    () => true,
  )
  return `## ${titles[part]}\n\n${summary(results)}\n\n${table}\n\n${explanations[part]}`
}

function summary(results: readonly CaseResult[]): string {
  const over = (variant: 'default' | 'fused'): string => {
    const ratios = results.map(({ ratio }) => ratio[variant].median)
    return `${geometricMean(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`
  }
  return `Geometric mean of the ratios, least to most: ${over('default')} against the default AdamW, ${over('fused')} against the fused one.`
}

function methodSection({ results }: Report): string {
  const rounds = results.map((result) => result.rounds)
  const difference = Math.max(...results.map(({ lossDifference }) => lossDifference))
  return `## How it is measured

- Each side is a process of its own, or one for each rank under torchrun, that waits while the other runs. They take turns of a few steps, who begins moves on each round, ${Math.min(...rounds)} to ${Math.max(...rounds)} rounds a row. A time is the median of the rounds' medians. A ratio is the median over the rounds of the quotient of the two that stood side by side, with its quartiles.
- Starting, compiling and the first steps are not counted. Those first steps also show that both do the same work: their losses differ by at most ${difference === 0 ? '0' : difference.toExponential(0)} of the loss.
- A step is batch in, forward, backward, reduction, AdamW, loss out. No clipping on either side. Meshwright looks through what its tasks make for NaN, as it does by default; that is inside its task time.
- PyTorch runs eager with \`torch.set_num_threads(1)\`, \`scaled_dot_product_attention(is_causal=True)\` (\`enable_gqa\` in (d)), \`zero_grad(set_to_none=True)\`. "PyTorch" is \`torch.optim.AdamW\` as it comes, which on a CPU loops over the tensors; asking for \`foreach\` gives the same there. "Fused" is \`fused=True\`. Biases and norms do not decay on either side.
- Memory is the peak of resident memory of all processes of a side after its first steps, with all that Node or Python and PyTorch take by themselves; PyTorch's with the default AdamW.
- "One thread" is what computes. Node's main thread waits meanwhile, its compiler and collector may use another core, as may the threads of gloo.

## To measure it yourself

\`\`\`
python3 -m venv .venv && .venv/bin/pip install torch==2.13.0
npm run bench:engine                # all of it, and writes this page
npm run bench:engine -- --quick     # about a minute, prints only
npm run bench:engine -- --only a    # one part, prints only
\`\`\`

\`--json FILE\` keeps the figures. Let nothing else run meanwhile.`
}

function milliseconds({ seconds }: SideTimes): string {
  const value = seconds.median * 1000
  return value.toFixed(value < 100 ? 1 : 0)
}

function mebibytes({ peakBytes }: SideTimes): string {
  return peakBytes === null ? '' : (peakBytes / 2 ** 20).toFixed(0)
}

function formatSpread({ median, low, high }: Spread): string {
  return `**${median.toFixed(2)}** (${low.toFixed(2)}–${high.toFixed(2)})`
}
