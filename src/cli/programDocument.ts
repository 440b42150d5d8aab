import {
  arenaBytes,
  formatInstruction,
  formatOperand,
  formatValue,
  type Instruction,
  type Program,
  type Role,
  readInstruction,
  roleRanks,
} from '../program/index.ts'
import type { Compiled } from './prepare.ts'

/** The `--json` form of `show`: roles with their instructions as objects. */
export function programDocument(
  { model, plan }: Compiled,
  program: Program,
  only?: Role,
): Record<string, unknown> {
  return {
    schemaVersion: 1,
    model: model.name,
    work: program.work,
    ranks: plan.ranks,
    mesh: program.mesh.submeshes,
    streams: program.streams,
    groups: program.groups,
    tasks: program.tasks.map((task) =>
      task.kind === 'graph'
        ? { name: task.name, kind: task.kind, hash: task.hash, ops: task.graph.nodes.length }
        : task.kind === 'kernel'
          ? { name: task.name, kind: task.kind, kernel: task.kernel }
          : { name: task.name, kind: task.kind, missing: task.missing },
    ),
    roles: (only === undefined ? program.roles : [only]).map((role) => ({
      name: role.name,
      ranks: roleRanks(program.mesh, role),
      arenaBytes: arenaBytes(role),
      buffers: role.buffers.map(({ name, dtype, shape, pool, state }) => ({
        name,
        dtype,
        shape,
        pool,
        state: state === true,
      })),
      pools: role.pools,
      instructions: Array.from({ length: role.code.length }, (_, index) =>
        instructionDocument(program, role, index),
      ),
    })),
  }
}

function instructionDocument(program: Program, role: Role, index: number): Record<string, unknown> {
  const instruction = readInstruction(role.code, index)
  const stream = instruction.kind === 'free' ? {} : { stream: program.streams[instruction.stream]?.name }
  return {
    kind: instruction.kind,
    ...stream,
    text: formatInstruction(program, role, index),
    ...operands(program, role, instruction),
  }
}

function operands(program: Program, role: Role, instruction: Instruction): Record<string, unknown> {
  switch (instruction.kind) {
    case 'run':
      return {
        task: program.tasks[instruction.task]?.name,
        ...(instruction.action === undefined ? {} : { action: role.actions[instruction.action] }),
        reads: instruction.reads.map((read) => formatOperand(role, read)),
        writes: instruction.writes.map((write) => ({ value: formatOperand(role, write), mode: write.mode })),
      }
    case 'exchange':
      return {
        parts: instruction.parts.map((part) => ({
          direction: part.direction,
          transfer: part.transfer,
          value: formatOperand(role, part),
          peer: role.peers[part.peer],
        })),
      }
    case 'collective':
      return {
        collective: instruction.collective,
        operation: instruction.operation,
        ...(instruction.reduce === undefined ? {} : { reduce: instruction.reduce }),
        parts: instruction.parts.map(({ source, result }) => ({
          source: formatOperand(role, source),
          result: formatOperand(role, result),
          mode: result.mode,
        })),
        ...(instruction.root === undefined ? {} : { root: instruction.root }),
        ...(instruction.shift === undefined ? {} : { shift: instruction.shift }),
        group: program.groups[instruction.group]?.name,
      }
    case 'move':
      return {
        direction: instruction.direction,
        port: instruction.port,
        value: formatValue(role, instruction.value),
      }
    case 'free':
      return { values: instruction.values.map((value) => formatValue(role, value)) }
  }
}
