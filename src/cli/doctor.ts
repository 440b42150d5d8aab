import { execFile } from 'node:child_process'
import { availableParallelism, freemem, totalmem } from 'node:os'
import { Command } from 'commander'
import { formatBytes, table } from './format.ts'
import { packageVersion } from './version.ts'

/** One thing that was looked at, and what it means for a person. */
interface Check {
  readonly name: string
  readonly found: string
  readonly means: string
  readonly ok: boolean
}

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('what can run here: Node, ONNX Runtime, cores, memory, PyTorch, GPUs')
    .option('--json', 'one JSON document')
    .action(doctor)
}

async function doctor(flags: { readonly json?: boolean }): Promise<void> {
  const checks = [node(), await onnxRuntime(), cores(), memory(), ...(await Promise.all([torch(), gpus()]))]
  if (flags.json === true) {
    process.stdout.write(
      `${JSON.stringify({ schemaVersion: 1, version: packageVersion(), checks }, null, 2)}\n`,
    )
    return
  }
  const rows = checks.map(({ name, found, means, ok }) => [ok ? '✓' : '–', name, found, means])
  process.stdout.write(`${table(['', 'what', 'found', 'which means'], rows).join('\n')}\n`)
}

function node(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const ok = major > 20 || (major === 20 && minor >= 19)
  return {
    name: 'Node',
    found: process.versions.node,
    means: ok ? 'planning, checking and showing work' : 'too old: 20.19 or newer is needed',
    ok,
  }
}

async function onnxRuntime(): Promise<Check> {
  try {
    const runtime = await import('onnxruntime-node')
    return {
      name: 'ONNX Runtime',
      found: runtime.env.versions.node ?? runtime.env.versions.common,
      means: 'train and check --run work',
      ok: true,
    }
  } catch (error) {
    const { loadFailure, noRuntimeError } = await import('../engine/index.ts')
    const reason = loadFailure(error)
    return {
      name: 'ONNX Runtime',
      found: reason === undefined ? 'not installed' : 'installed, does not load',
      means: `train and check --run need it${reason === undefined ? '' : ` (${reason})`}; ${noRuntimeError(error).hint}`,
      ok: false,
    }
  }
}

function cores(): Check {
  const count = availableParallelism()
  return {
    name: 'cores',
    found: String(count),
    means: `${count} rank${count === 1 ? '' : 's'} at full speed; more take turns`,
    ok: true,
  }
}

function memory(): Check {
  return {
    name: 'memory',
    found: `${formatBytes(freemem())} free of ${formatBytes(totalmem())}`,
    means: 'check says what a plan needs of it',
    ok: true,
  }
}

async function torch(): Promise<Check> {
  const script = 'import torch; print(torch.__version__, torch.cuda.device_count())'
  const output = await run('python3', ['-c', script])
  const [version, devices] = output?.trim().split(' ') ?? []
  return version === undefined
    ? {
        name: 'PyTorch',
        found: 'not found by python3',
        means: 'only benchmarks against it need it',
        ok: false,
      }
    : { name: 'PyTorch', found: version, means: `${devices} CUDA devices seen by it`, ok: true }
}

async function gpus(): Promise<Check> {
  const output = await run('nvidia-smi', ['--query-gpu=name,memory.total', '--format=csv,noheader'])
  const names = output?.trim().split('\n').filter(Boolean) ?? []
  return names.length === 0
    ? { name: 'GPUs', found: 'none seen', means: 'the local engine runs on the CPU', ok: false }
    : {
        name: 'GPUs',
        found: names.join('; '),
        means: 'seen, though the local engine runs on the CPU',
        ok: true,
      }
}

/** Standard output of a command, or undefined when it cannot be had within a few seconds. */
function run(command: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, [...args], { timeout: 10_000 }, (error, stdout) => {
      resolve(error === null ? stdout : undefined)
    })
  })
}
