import { describe, expect, it } from 'vitest'
import { tinyProgram } from '../../../test/support/programs.ts'
import { specimenText } from '../../../test/support/specimens.ts'
import { parseProgram } from '../text/parse.ts'
import { printProgram } from '../text/print.ts'
import { verifyProgram } from './index.ts'

type Change = readonly [string | RegExp, string]

function findings(number: string, ...changes: readonly Change[]): string[] {
  const found = verifyProgram(parseProgram(specimenText(number, changes))).findings
  return [...new Set(found.map(({ code }) => code))]
}

describe('programs that say themselves which phases a step has', () => {
  it.each<[string, string, Change, string]>([
    ['an action left out', '04', [' for B stage 0 m1', ''], 'ACTION_MISSING'],
    ['a phase that nobody does', '04', ['phases F B U', 'phases F B U P'], 'ACTION_MISSING'],
    ['a slice left out', '09', [' for F stage 1 m1 slice 0', ''], 'ACTION_MISSING'],
    ['a slice of none', '09', ['for F stage 1 m1 slice 0', 'for F stage 1 m1 slice 2'], 'ACTION_UNKNOWN'],
    ['a stage of none', '04', ['for B stage 0 m0', 'for B stage 7 m0'], 'ACTION_UNKNOWN'],
    ['another micro-batch', '04', ['for F stage 0 m0', 'for F stage 0 m1'], 'BINDING_MICROBATCH'],
    ['a later slice', '09', ['h0[0,s0] -> x0[0,s0] for', 'h0[0,s1] -> x0[0,s0] for'], 'BINDING_SLICE'],
    ['a loop without its end', '06', [/\n.*move out converged.*/, ''], 'PORT_MISSING'],
    ['a state that nobody updates', '08', ['b: f64[2, 2] state frozen', 'b: f64[2, 2] state'], 'STATE_KEPT'],
    [
      'a frozen state that is',
      '08',
      ['result: f64[3, 2] state', 'result: f64[3, 2] state frozen'],
      'STATE_CHANGED',
    ],
    [
      'a read of the old in the place of the new',
      '15',
      ['; free g0 rate0\n', '; free g0 rate0\n  compute run F0 tokens[1] w0[t-2] -> x0[1]\n'],
      'READ_AFTER_UPDATE',
    ],
    ['an older version written', '15', ['-> w0[t+1] for', '-> w0[t-1] for'], 'WRITE_GIVEN'],
    ['a part that is not said to be unsynced', '20', ['tensor unsynced', 'tensor'], 'SUM_MISSING'],
    [
      'an all-reduce over too few',
      '03',
      [/all-reduce #1 sum y\[0\] over tensor/, 'all-reduce #1 max y[0] over tensor'],
      'SUM_GROUP',
    ],
    [
      'a missing task given other types',
      '06',
      ['read i32[6]\n  read i32[4]', 'read i32[6]\n  read i32[5]'],
      'OPERAND_TYPE',
    ],
    ['a copy of another size', '08', ['hostIds[t]{0:6}', 'hostIds[t]{0:5}'], 'OPERAND_TYPE'],
  ])('refuses %s', (_, number, change, code) => {
    expect(findings(number, change)).toContain(code)
  })

  it('refuses one part of an action twice', () => {
    const line = / {2}compute run F tokens\[0\].*\n/
    const text = specimenText('03')
    const again = text.replace(
      line,
      `$&${line.exec(text)![0].replaceAll('[0]', '[0]').replace('y[0]', 'y[0] +=').replace('z[0]', 'z[0] +=')}`,
    )
    const codes = verifyProgram(parseProgram(again)).findings.map(({ code }) => code)
    expect(codes).toContain('ACTION_REPEATED')
  })

  it('lets ranks that share a device have its memory together', () => {
    const program = parseProgram(specimenText('13'))
    const alone = parseProgram(specimenText('13', [['devices shared over tensor\n', '']]))
    const budget = { budgetBytes: 1000 }
    expect(verifyProgram(alone, budget).findings).toEqual([])
    expect(verifyProgram(program, budget).findings.map(({ code }) => code)).toContain('MEMORY_BUDGET')
  })

  it('takes a mean of replicas that differ, and no sum of what is whole', () => {
    expect(findings('12', ['#21 mean', '#21 sum'])).toContain('SUM_WHOLE')
  })
})

describe('axes that are no replica axes', () => {
  const text = (axes: string): string =>
    printProgram(tinyProgram({ stages: 2, data: 1, microbatches: 2 }), { full: true }).replace(
      'mesh pipeline=0..1: data=1',
      `mesh pipeline=0..1: ${axes}`,
    )

  it('hold no terms of a sum over samples, and every rank along them owns its part', () => {
    expect(verifyProgram(parseProgram(text('data=1, tensor=2'))).findings).toEqual([])
  })

  it('unlike those of replicas', () => {
    const codes = verifyProgram(parseProgram(text('data=2'))).findings.map(({ code }) => code)
    expect(codes).toContain('SUM_UNDECLARED')
  })
})
