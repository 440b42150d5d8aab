import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { MeshwrightError } from '../src/base/index.ts'

const run = promisify(execFile)

export interface Python {
  readonly command: string
  readonly torch: string
}

/** One thread a process, and gloo on the loopback interface, for everything that PyTorch runs. */
export function torchEnvironment(): NodeJS.ProcessEnv {
  const loopback = process.platform === 'linux' ? { GLOO_SOCKET_IFNAME: 'lo' } : {}
  return {
    ...process.env,
    ...loopback,
    OMP_NUM_THREADS: '1',
    MKL_NUM_THREADS: '1',
    PYTHONDONTWRITEBYTECODE: '1',
  }
}

/**
 * A Python with PyTorch: the one that MESHWRIGHT_PYTHON names, or that of `.venv`, or python3.
 *
 * @throws MeshwrightError `BENCH_NO_PYTORCH`, exit code 2, saying how to get it
 */
export async function findPython(root: string): Promise<Python> {
  const named = process.env['MESHWRIGHT_PYTHON']
  const own = [join(root, '.venv', 'bin', 'python'), join(root, '.venv', 'Scripts', 'python.exe')]
  const tried =
    named !== undefined && named !== '' ? [named] : [...own.filter((path) => existsSync(path)), 'python3']
  for (const command of tried) {
    const torch = await torchVersion(command)
    if (torch !== undefined) return { command, torch }
  }
  throw new MeshwrightError('BENCH_NO_PYTORCH', `no PyTorch found by ${tried.join(', ')}`, {
    hint: 'python3 -m venv .venv && .venv/bin/pip install torch==2.13.0, or name a Python that has it in MESHWRIGHT_PYTHON',
  })
}

async function torchVersion(command: string): Promise<string | undefined> {
  try {
    const { stdout } = await run(
      command,
      ['-c', 'import torch, torch.distributed.pipelining; print(torch.__version__)'],
      {
        timeout: 120_000,
        env: torchEnvironment(),
      },
    )
    return stdout.trim().split('\n').at(-1)
  } catch {
    return undefined
  }
}
