import type { Peer } from '../types.ts'
import type { TextReader } from './reader.ts'

const maximumNumber = 2 ** 31 - 1

/** `pipeline+1 data=(2*data+1)/3`; see formatPeer. */
export function parsePeer(reader: TextReader): Peer {
  reader.expect('pipeline', 'a peer is given as in pipeline+1')
  const pipeline = parseSigned(reader)
  const axes: Peer['axes'][number][] = []
  while (reader.peek(1).text === '=') {
    const name = reader.name('an axis')
    reader.expect('=')
    axes.push({ name, ...parseCoordinate(reader, name) })
  }
  return { pipeline, axes }
}

/** `2`, `data`, `2*data+1`, `data/3` or `(2*data+1)/3` */
function parseCoordinate(
  reader: TextReader,
  axis: string,
): { scale: number; offset: number; divisor: number } {
  if (reader.accept('(')) {
    const scale = parseTerm(reader, axis)
    const offset = parseSigned(reader)
    reader.expect(')')
    return { scale, offset, divisor: parseDivisor(reader) }
  }
  if (reader.peek().kind === 'number' && reader.peek(1).text !== '*')
    return { scale: 0, offset: reader.number('a coordinate', maximumNumber), divisor: 1 }
  const scale = parseTerm(reader, axis)
  const divisor = parseDivisor(reader)
  return { scale, offset: divisor === 1 ? parseSigned(reader) : 0, divisor }
}

/** `data`, `2*data` or `-1*data`: the factor. */
function parseTerm(reader: TextReader, axis: string): number {
  const negative = reader.accept('-')
  let scale = 1
  if (negative || reader.peek().kind === 'number') {
    scale = reader.number('a factor', maximumNumber)
    reader.expect('*')
  }
  const at = reader.peek()
  if (reader.name('the axis') !== axis)
    throw reader.fail('a coordinate follows from the own one on the same axis', at, `write ${axis} here`)
  return negative ? 0 - scale : scale
}

function parseDivisor(reader: TextReader): number {
  return reader.accept('/') ? reader.number('a divisor', maximumNumber, 1) : 1
}

/** `+1`, `-1`, or nothing for 0. */
export function parseSigned(reader: TextReader): number {
  if (reader.accept('+')) return reader.number('a number', maximumNumber)
  return reader.accept('-') ? 0 - reader.number('a number', maximumNumber) : 0
}
