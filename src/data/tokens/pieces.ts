/**
 * Whether a text may be tokenized in pieces that are cut by `cutAtLines`, with the same ids as the whole. That is so
 * where words are found by the byte-level patterns of GPT-2 and its kin: a line break between two visible ASCII
 * characters always ends a word there, and nothing is put in front of a text.
 */
export function isCuttable(
  document: Readonly<Record<string, unknown>>,
  addedTokens: readonly string[],
): boolean {
  // A token that spans a line break could be cut in two.
  if (addedTokens.some((content) => /\n./s.test(content))) return false
  if (document['normalizer'] !== null && document['normalizer'] !== undefined) return false
  const steps = flatten(document['pre_tokenizer'])
  const last = steps.at(-1)
  return (
    last?.['type'] === 'ByteLevel' &&
    steps.every(
      (step) =>
        step['add_prefix_space'] !== true && ['ByteLevel', 'Split', 'Digits'].includes(String(step['type'])),
    ) &&
    (last['use_regex'] !== false || steps.some(({ type }) => type === 'Split'))
  )
}

function flatten(step: unknown): readonly Record<string, unknown>[] {
  if (typeof step !== 'object' || step === null) return []
  const record = step as Record<string, unknown>
  const inner = record['pretokenizers']
  return Array.isArray(inner) ? inner.flatMap(flatten) : [record]
}

const newline = 0x0a

/** Cuts after line breaks between two visible ASCII characters, as soon as a piece has `atLeast` bytes. */
export function* cutAtLines(text: Uint8Array, atLeast: number): Generator<Uint8Array> {
  let start = 0
  let end = text.indexOf(newline, atLeast)
  while (end !== -1) {
    if (isVisible(text[end - 1]) && isVisible(text[end + 1])) {
      yield text.subarray(start, end + 1)
      start = end + 1
      end = text.indexOf(newline, start + atLeast)
    } else {
      end = text.indexOf(newline, end + 1)
    }
  }
  if (start < text.byteLength) yield text.subarray(start)
}

function isVisible(byte: number | undefined): boolean {
  return byte !== undefined && byte > 0x20 && byte < 0x7f
}
