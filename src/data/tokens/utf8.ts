/**
 * Counts the bytes that belong to no well-formed UTF-8 sequence (Unicode 15, table 3-7) and finds the first of them;
 * `first` is -1 where there is none.
 */
export function invalidUtf8(bytes: Uint8Array): { readonly count: number; readonly first: number } {
  let count = 0
  let first = -1
  let position = 0
  while (position < bytes.length) {
    const length = sequenceLength(bytes, position)
    if (length === 0) {
      if (first === -1) first = position
      count++
      position++
    } else {
      position += length
    }
  }
  return { count, first }
}

/** Length of the well-formed sequence at `position`, or 0. */
function sequenceLength(bytes: Uint8Array, position: number): number {
  const lead = bytes[position]!
  if (lead < 0x80) return 1
  if (lead < 0xc2 || lead > 0xf4) return 0
  const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4
  // The second byte's range keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
  const lowest = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80
  const highest = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf
  const second = bytes[position + 1] ?? 0
  if (second < lowest || second > highest) return 0
  for (let index = 2; index < length; index++) {
    const byte = bytes[position + index] ?? 0
    if (byte < 0x80 || byte > 0xbf) return 0
  }
  return length
}
