import { it } from 'vitest'
import { tinyProgram } from '../../test/support/programs.ts'
import { readInstructions } from './columns.ts'
import { roleRanks } from './mesh.ts'
import { rankViews } from './verify/ranks.ts'
import { rankGraph } from './verify/meetings.ts'
import { memoryEdges, streamEdges } from './verify/dependences.ts'
import { checkDeadlock, checkBufferedDeadlock } from './verify/deadlock.ts'
const time = (name: string, f: () => unknown) => { const t = process.cpuUsage(); let r; for (let i=0;i<5;i++) r = f(); console.log(name, (process.cpuUsage(t).user / 5000).toFixed(1), Array.isArray(r) ? r.length : ''); }
it('x', () => {
    const program = tinyProgram({ stages: 8, data: 4, microbatches: 64 })
    const roles = program.roles.map((role, index) => ({ index, role, ranks: roleRanks(program.mesh, role), instructions: readInstructions(role.code) }))
    const context = { program, roles, ranks: rankViews(program, roles), budgetBytes: undefined, workspaceBytes: 0 }
    time('memory', () => roles.map(memoryEdges).flat())
    time('stream', () => roles.map(streamEdges))
    time('graph', () => rankGraph(context))
    const g = rankGraph(context)
    time('expand', () => g.expand((r) => memoryEdges(roles[r]!)))
    time('deadlock', () => checkDeadlock(context))
    time('buffered', () => checkBufferedDeadlock(context))
})
