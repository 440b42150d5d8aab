import { median } from '../../base/index.ts'
import type { KernelTask, Program, Task } from '../../program/index.ts'
import type { LineCost } from '../../simulate/index.ts'
import type { Experiment, StepTimes } from './communication.ts'
import { fitLine, type Point } from './lines.ts'
import { type TaskClass, taskPrograms } from './taskPrograms.ts'

/** What runs of one class took, over all steps, and how many a step of the program has. */
export interface TaskTimes {
  readonly task: Task
  readonly bytes: number
  readonly count: number
  readonly seconds: number
}

/** Every task of a program alone, on as many ranks at once as it has and the machine has cores for. */
export function taskExperiments(program: Program, cores: number): Experiment<readonly TaskTimes[]>[] {
  return taskPrograms(program, cores).map(({ program: alone, classes }) => {
    const times = new Map<TaskClass, number[]>()
    const all = new Map<TaskClass, number[]>()
    const add = (to: Map<TaskClass, number[]>, one: TaskClass, seconds: number): void => {
      const own = to.get(one)
      if (own === undefined) to.set(one, [seconds])
      else own.push(seconds)
    }
    return {
      program: alone,
      note: (step: StepTimes) => {
        // Until then all ranks were busy.
        const until = Math.min(...step.map((rank) => Math.max(...[...rank.values()].map(({ end }) => end))))
        step.forEach((rank, index) => {
          for (const [at, { start, end }] of rank) {
            const one = classes[index]!.get(at)
            if (one === undefined) continue
            add(all, one, end - start)
            if (end <= until) add(times, one, end - start)
          }
        })
      },
      result: () =>
        [...all].map(([one, seconds]) => ({
          ...one,
          seconds: median(times.get(one) ?? seconds),
        })),
    }
  })
}

/** Of a task the mean over its runs, of a kernel a line through them. */
export function taskLines(found: readonly TaskTimes[]): Record<string, LineCost> {
  const points = new Map<string, { readonly task: Task; readonly points: Point[] }>()
  for (const { task, bytes, count, seconds } of found) {
    const own = points.get(task.hash) ?? { task, points: [] }
    points.set(task.hash, own)
    own.points.push({ bytes: isKernel(task) ? bytes : 0, seconds, weight: count })
  }
  return Object.fromEntries([...points].map(([hash, own]) => [hash, fitLine(own.points)]))
}

function isKernel(task: Task): task is KernelTask {
  return task.kind === 'kernel'
}
