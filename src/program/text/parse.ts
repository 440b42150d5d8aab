import { methods, type Phase, phases, scheduleLimits } from '../../schedule/index.ts'
import type { Group, MeshAxis, Program, Role, Stream, Task, Work } from '../types.ts'
import { parseRole } from './parseRole.ts'
import { parseTask } from './parseTask.ts'
import { TextReader } from './reader.ts'

/** Sizes beyond these are refused before anything is built from them. */
const limits = { pipelines: scheduleLimits.actors, ranks: 1 << 16, channelSlots: 1 << 16 } as const

const resources: readonly Stream['resource'][] = ['compute', 'network', 'host', 'cpu']
const statements = ['work', 'channel', 'mesh', 'devices', 'stream', 'group', 'task', 'role'] as const

/** What roles may refer to, by name. */
export interface Declarations {
  readonly submeshes: readonly (readonly MeshAxis[])[]
  readonly streams: ReadonlyMap<string, number>
  readonly groups: ReadonlyMap<string, number>
  readonly tasks: ReadonlyMap<string, number>
}

/**
 * Reads the text form that `printProgram` writes in full, or that a person writes by hand: whatever a statement names
 * is declared above it, `#` begins a comment. Whether the program makes sense is for `verifyProgram`; slots follow
 * from the order of instructions where the text does not give them.
 *
 * @throws MeshwrightError `PROGRAM_TEXT` with line and column
 */
export function parseProgram(text: string, options: { readonly file?: string } = {}): Program {
  return new ProgramParser(new TextReader(text, options.file)).parse()
}

class ProgramParser {
  private readonly reader: TextReader
  private work: Work | undefined
  private channelSlots: number | undefined
  private ranks = 0
  private readonly submeshes: MeshAxis[][] = []
  private sharedOver: string[] | undefined
  private readonly streams = new Declared<Stream>()
  private readonly groups = new Declared<Group>()
  private readonly tasks = new Declared<Task>()
  private readonly roles: Role[] = []

  constructor(reader: TextReader) {
    this.reader = reader
  }

  parse(): Program {
    const { reader } = this
    reader.expect('program', 'the text of a program begins with "program 1"')
    const at = reader.peek()
    const version = reader.number('a version')
    if (version !== 1)
      throw reader.fail(`version ${version} of programs is not known`, at, 'this reads version 1')
    reader.end()
    while (!reader.done) this.statement()
    if (this.work === undefined) throw this.missing('work gradient: 2 stages, 4 microbatches')
    if (this.channelSlots === undefined) throw this.missing('channel slots 2')
    if (this.submeshes.length === 0) throw this.missing('mesh pipeline=0..1: data=2')
    return {
      work: this.work,
      mesh: {
        submeshes: this.submeshes,
        ...(this.sharedOver === undefined ? {} : { sharedOver: this.sharedOver }),
      },
      streams: this.streams.items,
      groups: this.groups.items,
      tasks: this.tasks.items,
      roles: this.roles,
      channelSlots: this.channelSlots,
    }
  }

  private statement(): void {
    const { reader, streams, groups, tasks, submeshes } = this
    const at = reader.peek()
    switch (reader.word(statements, 'a statement')) {
      case 'work':
        if (this.work !== undefined) throw reader.fail('a second line "work"', at)
        this.work = this.readWork()
        break
      case 'channel':
        if (this.channelSlots !== undefined) throw reader.fail('a second line "channel slots"', at)
        reader.expect('slots')
        this.channelSlots = reader.number('a number of messages', limits.channelSlots, 1)
        reader.end()
        break
      case 'mesh':
        this.readMesh()
        break
      case 'devices':
        if (this.sharedOver !== undefined) throw reader.fail('a second line "devices"', at)
        reader.expect('shared')
        reader.expect('over')
        this.sharedOver = reader.list(() => this.readSharedAxis())
        reader.end()
        break
      case 'stream': {
        const name = streams.declare(reader, 'stream')
        reader.expect(':')
        const resource = reader.word(resources, 'what the stream occupies')
        if (reader.accept('order')) {
          reader.expect('ready')
          streams.items.push({ name, resource, order: 'ready' })
        } else streams.items.push({ name, resource })
        reader.end()
        break
      }
      case 'group': {
        const name = groups.declare(reader, 'group')
        groups.items.push(this.readGroup(name))
        break
      }
      case 'task': {
        const name = tasks.declare(reader, 'task')
        tasks.items.push(parseTask(reader, name))
        break
      }
      case 'role':
        this.roles.push(
          parseRole(reader, { submeshes, streams: streams.ids, groups: groups.ids, tasks: tasks.ids }),
        )
        break
    }
  }

  private readSharedAxis(): string {
    const at = this.reader.peek()
    const name = this.reader.name('an axis')
    if (this.submeshes.some((axes) => axes.some((axis) => axis.name === name))) return name
    throw this.reader.fail(`the mesh has no axis ${JSON.stringify(name)}`, at, 'give the mesh above it')
  }

  /** `declared: 2 stages, 2 microbatches, 4 slices, phases F B U, until converged`; what is behind the micro-batches may be left out. */
  private readWork(): Work {
    const { reader } = this
    const method = reader.word([...methods.keys(), 'declared'] as Work['method'][], 'a method')
    reader.expect(':')
    const stages = reader.number('the number of stages', scheduleLimits.stages, 1)
    reader.expect('stages')
    reader.expect(',')
    const at = reader.peek()
    const microbatches = reader.number('the number of micro-batches', scheduleLimits.microbatches, 1)
    if (stages * microbatches > scheduleLimits.actions)
      throw reader.fail(`${stages} stages of ${microbatches} micro-batches are too many`, at)
    reader.expect('microbatches')
    const more = method === 'declared' ? this.readDeclaredWork(stages * microbatches) : {}
    reader.end()
    return { method, stages, microbatches, ...more }
  }

  private readDeclaredWork(actions: number): Pick<Work, 'phases' | 'slices' | 'until'> {
    const { reader } = this
    const more: { phases?: Phase[]; slices?: number; until?: string } = {}
    while (reader.accept(',')) {
      const at = reader.peek()
      if (more.phases === undefined && reader.accept('phases')) {
        more.phases = []
        while (reader.peek().kind === 'name') more.phases.push(reader.word([...phases.keys()], 'a phase'))
        if (new Set(more.phases).size < more.phases.length) throw reader.fail('a phase is given twice', at)
      } else if (more.until === undefined && reader.accept('until')) more.until = reader.name('a port')
      else if (more.slices === undefined && at.kind === 'number') {
        more.slices = reader.number('a number of slices', scheduleLimits.slices, 1)
        reader.expect('slices')
        if (actions * more.slices > scheduleLimits.actions)
          throw reader.fail(`${more.slices} slices of each micro-batch are too many`, at)
      } else throw reader.fail('expected slices, phases or until, each once', at)
    }
    return more
  }

  /** `pipeline=0..3: data=2, tensor=4` */
  private readMesh(): void {
    const { reader } = this
    reader.expect('pipeline')
    reader.expect('=')
    const at = reader.peek()
    const first = reader.number('a pipeline coordinate')
    if (first !== this.submeshes.length)
      throw reader.fail(
        `pipeline coordinate ${first} where ${this.submeshes.length} is due`,
        at,
        'coordinates are listed in order, from 0',
      )
    const last = reader.accept('..')
      ? reader.number('a pipeline coordinate', limits.pipelines - 1, first)
      : first
    reader.expect(':')
    const axes: MeshAxis[] = []
    const readAxis = (): void => {
      const axisAt = reader.peek()
      const name = reader.name('an axis')
      if (axes.some((axis) => axis.name === name)) throw reader.fail(`axis ${name} is given twice`, axisAt)
      reader.expect('=')
      axes.push({ name, size: reader.number('the size of an axis', limits.ranks, 1) })
      if (axes.length > 16) throw reader.fail('more than 16 axes', axisAt)
    }
    if (reader.peek().kind !== 'end') reader.list(readAxis)
    const size = axes.reduce((product, axis) => product * axis.size, 1)
    this.ranks += size * (last - first + 1)
    if (this.ranks > limits.ranks)
      throw reader.fail(`the mesh has ${this.ranks} ranks`, at, `at most ${limits.ranks} are read`)
    for (let pipeline = first; pipeline <= last; pipeline++) this.submeshes.push([...axes])
    reader.end()
  }

  private readGroup(name: string): Group {
    const { reader } = this
    reader.expect(':')
    const axes = reader.list(() => reader.name('an axis'))
    let pipelines: number[] | undefined
    if (reader.accept('at')) {
      reader.expect('pipeline')
      const at = reader.peek()
      if (this.submeshes.length === 0)
        throw reader.fail('there is no mesh yet', at, 'give it above the groups')
      pipelines = reader.list(() => reader.number('a pipeline coordinate', this.submeshes.length - 1))
      if (new Set(pipelines).size < pipelines.length) throw reader.fail('a coordinate is given twice', at)
    }
    reader.end()
    return { name, axes, ...(pipelines === undefined ? {} : { pipelines }) }
  }

  private missing(example: string): Error {
    const { reader } = this
    return reader.fail(
      `the line "${example.split(/[ :=]/)[0]}" is missing`,
      reader.peek(),
      `as in "${example}"`,
    )
  }
}

/** Things of one kind in the order of their declaration, told apart by name. */
class Declared<T> {
  readonly items: T[] = []
  readonly ids = new Map<string, number>()

  declare(reader: TextReader, what: string): string {
    const at = reader.peek()
    const name = reader.name(`the name of a ${what}`)
    if (this.ids.has(name)) throw reader.fail(`a second ${what} ${JSON.stringify(name)}`, at)
    this.ids.set(name, this.items.length)
    return name
  }
}
