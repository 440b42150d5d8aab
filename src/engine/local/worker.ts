import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { MeshwrightError } from '../../base/index.ts'
import { Executor } from './executor.ts'
import { globalWords } from './hostLayout.ts'
import {
  commands,
  type FailureReport,
  type StateRequest,
  type WorkerReply,
  type WorkerSetup,
} from './protocol.ts'
import { StepClock } from './results.ts'
import { Aborted, abortReasons, Signals, Waiter } from './signals.ts'

/**
 * The thread of one rank. Between commands it sleeps on its bell, so its event loop turns only while ONNX Runtime is
 * asked to run; it ends by itself when told to stop, never from outside while it may be inside a call.
 */
const setup = workerData as WorkerSetup
const port = parentPort!
const signals = new Signals(setup.host.buffer, setup.layout.results.length)
const waiter = new Waiter(signals, setup.rank, setup.spin)
const clock = new StepClock(setup.host, setup.layout.traces[setup.rank], setup.role.code.length)

await serve()

async function serve(): Promise<void> {
  let executor: Executor
  try {
    executor = await Executor.create(setup, waiter, clock)
  } catch (error) {
    reply({ kind: 'refused', report: reportOf(error, undefined) })
    return
  }
  reply({ kind: 'ready', workspaceBytes: executor.workspaceBytes })
  const { words } = signals
  let generation = 0
  for (;;) {
    waiter.idle(() => Atomics.load(words, globalWords.generation) !== generation)
    generation = Atomics.load(words, globalWords.generation)
    const command = Atomics.load(words, globalWords.command)
    if (command === commands.stop) break
    try {
      if (command === commands.step) await executor.step(Atomics.load(words, globalWords.step))
      else executor.copyState(nextRequest())
    } catch (error) {
      if (!(error instanceof Aborted)) {
        if (signals.claimFailure(setup.rank))
          reply({ kind: 'failed', report: reportOf(error, executor.instruction) })
        signals.abort(abortReasons.failed)
      }
    }
    if (signals.leave()) reply({ kind: 'left' })
  }
  await executor.release()
}

/** The request that was posted before the command. */
function nextRequest(): StateRequest {
  const received = receiveMessageOnPort(port) as { message: StateRequest } | undefined
  if (received === undefined) throw new Error('internal: a command without its message')
  return received.message
}

function reply(message: WorkerReply): void {
  port.postMessage(message)
}

function reportOf(error: unknown, instruction: number | undefined): FailureReport {
  const known = error instanceof MeshwrightError ? error : undefined
  return {
    instruction,
    code: known?.code ?? 'RUN_FAILED',
    message: error instanceof Error ? error.message.trim() : String(error),
    hint: known?.hint,
    exitCode: known?.exitCode,
    stack: error instanceof Error ? error.stack : undefined,
  }
}
