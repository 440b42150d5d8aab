import { describe, expect, it } from 'vitest'
import { checkEven, checkFactorisations, checkLayout, checkMesh, type Mesh, parseLayout } from './index.ts'

const mesh: Mesh = {
  axes: [
    { name: 'data', size: 2 },
    { name: 'tensor.row', size: 3 },
    { name: 'tensor.column', size: 4 },
  ],
}

describe('checkLayout', () => {
  it.each([
    '[data | tensor.row, tensor.column]',
    '[tensor.column | data]',
    '[. | .] partial sum data, tensor.row varying tensor.column',
  ])('accepts %s, uneven or not', (text) => {
    expect(() => checkLayout(parseLayout(text), [5, 13], mesh)).not.toThrow()
  })

  it.each([
    ['[data]', 'LAYOUT_RANK', 'has 1 dims, the tensor [5, 13] has 2', 'such as [. | .]'],
    [
      '[dato | .]',
      'LAYOUT_AXIS',
      'the mesh data=2, tensor.row=3, tensor.column=4 has no axis dato',
      '"data"',
    ],
    [
      '[. | .] partial sum expert',
      'LAYOUT_AXIS',
      'has no axis expert',
      'it has data, tensor.row, tensor.column',
    ],
    [
      '[data | data]',
      'LAYOUT_AXIS_TWICE',
      'it shards dim 0, and it shards dim 1',
      'free is tensor.row, tensor.column',
    ],
    [
      '[data | .] partial sum data',
      'LAYOUT_AXIS_TWICE',
      'it shards dim 0, and it holds terms of a sum',
      'free is',
    ],
    [
      '[. | .] partial max data varying data',
      'LAYOUT_AXIS_TWICE',
      'terms of a max, and it varies',
      'free is',
    ],
    [
      '[. | .] partial max data partial sum tensor.row',
      'LAYOUT_PARTIAL',
      'a maximum and of a sum or mean',
      'reduce one',
    ],
    [
      '[data, tensor.row | .]',
      'LAYOUT_SHARDS',
      'dim 0 of size 5 would be cut into 6 blocks (data=2 x tensor.row=3)',
      'at most 5 blocks: use data=2 alone, or make the dim at least 6',
    ],
  ])('refuses %s with %s', (text, code, message, hint) => {
    expect(() => checkLayout(parseLayout(text), [5, 13], mesh)).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringContaining(message),
        hint: expect.stringContaining(hint),
      }),
    )
  })
})

describe('checkEven', () => {
  it.each([
    [12, ['tensor.row'], undefined],
    [13, ['tensor.row'], 'nearest that work: heads 12 or 15, or 1 or 13 parts'],
    [14, ['tensor.column'], 'nearest that work: heads 12 or 16, or 2 or 7 parts'],
    [3, ['tensor.column'], 'nearest that work: heads 4, or 3 parts'],
  ])('%i heads over %j', (size, axes, hint) => {
    const check = () => checkEven('heads', size, axes, mesh)
    if (hint === undefined) expect(check).not.toThrow()
    else expect(check).toThrow(expect.objectContaining({ code: 'LAYOUT_UNEVEN', hint }))
  })
})

describe('meshes', () => {
  it.each([
    [[{ name: 'a', size: 0 }], 'axis a has the size 0'],
    [[{ name: 'a', size: 1.5 }], 'axis a has the size 1.5'],
    [[{ name: 'a b', size: 1 }], '"a b" is not a name of an axis'],
    [
      [
        { name: 'a', size: 2 },
        { name: 'a', size: 2 },
      ],
      'the mesh has the axis a twice',
    ],
    [
      [
        { name: 'a', size: 2 ** 20 },
        { name: 'b', size: 2 ** 20 },
      ],
      'more than 16777216',
    ],
  ])('%j: %s', (axes, message) => {
    expect(() => checkMesh({ axes })).toThrow(
      expect.objectContaining({ code: 'LAYOUT_MESH', message: expect.stringContaining(message) }),
    )
  })

  it('lists each of its ranks once', () => {
    const axes = [{ name: 'a', size: 2 }]
    expect(() => checkMesh({ axes, ranks: [4, 7] })).not.toThrow()
    for (const ranks of [[4], [4, 4], [4, -1]]) expect(() => checkMesh({ axes, ranks })).toThrow('ranks')
  })

  it('factored twice has equal products', () => {
    const axes = (sizes: Readonly<Record<string, number>>): Mesh => ({
      axes: Object.entries(sizes).map(([name, size]) => ({ name, size })),
    })
    const dense = axes({ data: 4, tensor: 2 })
    expect(() => checkFactorisations({ dense, experts: axes({ expert: 8 }) })).not.toThrow()
    expect(() => checkFactorisations({ dense, experts: axes({ expertData: 3, expert: 4 }) })).toThrow(
      expect.objectContaining({
        code: 'LAYOUT_FACTORISATION',
        message: expect.stringMatching(
          /expertData=3, expert=4, which makes 12.*data=4, tensor=2, which makes 8/,
        ),
        hint: 'expertData=2 would make 8',
      }),
    )
  })
})
