import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import { loadTokenizer } from './huggingFace.ts'
import { cutAtLines, isCuttable } from './pieces.ts'
import { checkVocabulary, readText, tokenizeText } from './text.ts'
import { byteTokenizer } from './tokenizer.ts'
import { invalidUtf8 } from './utf8.ts'

const folder = mkdtempSync(join(tmpdir(), 'meshwright-tokens-'))
afterAll(() => rmSync(folder, { recursive: true }))

let files = 0
function store(content: string | Uint8Array): string {
  const path = join(folder, `file-${files++}`)
  writeFileSync(path, content)
  return path
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

async function refusal(action: Promise<unknown>): Promise<MeshwrightError> {
  const error: unknown = await action.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof MeshwrightError) return error
  throw error ?? new Error('nothing was refused')
}

/** A byte-level BPE like GPT-2's, with a handful of merges. */
function bytePairDocument(): Record<string, unknown> & { model: Record<string, unknown> } {
  // GPT-2 shows a byte as itself where that is visible, and as the next character from U+0100 on elsewhere.
  const visible = (byte: number): boolean =>
    (byte > 32 && byte < 127) || (byte > 160 && byte < 256 && byte !== 173)
  let hidden = 256
  const vocab: Record<string, number> = {}
  for (let byte = 0; byte < 256; byte++) vocab[String.fromCodePoint(visible(byte) ? byte : hidden++)] = byte
  const merges = ['t h', 'th e', 'Ġ the', 'i n', 'Ċ Ċ', 'Ġ Ġ', 'ĠĠ ĠĠ']
  merges.forEach((merge, index) => {
    vocab[merge.replace(' ', '')] = 256 + index
  })
  return {
    version: '1.0',
    added_tokens: [{ id: 263, content: '<|endoftext|>', normalized: false, special: true }],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab, merges },
  }
}

const unigram = {
  added_tokens: [{ id: 0, content: '<unk>', normalized: false, special: true }],
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
  decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
  model: {
    type: 'Unigram',
    unk_id: 0,
    vocab: [
      ['<unk>', 0],
      ['▁the', -2],
      ['▁', -3],
      ['t', -4],
      ['h', -4],
      ['e', -4],
      ['▁cat', -5],
      ['c', -6],
      ['a', -6],
      ['s', -6],
    ],
  },
}

describe('byte tokens', () => {
  test('are the bytes of any text', async () => {
    const tokens = await byteTokenizer().encode(utf8('aé\n'))
    expect([...tokens]).toEqual([0x61, 0xc3, 0xa9, 0x0a])
    expect(byteTokenizer().decode(tokens)).toBe('aé\n')
    expect(byteTokenizer().vocabularySize).toBe(256)
  })
})

// The ids were made by the Python package tokenizers from the same documents.
describe('a Hugging Face tokenizer', () => {
  test('of byte pairs gives the ids of the reference library, from its file or its folder', async () => {
    const inside = join(folder, 'model')
    mkdirSync(inside)
    writeFileSync(join(inside, 'tokenizer.json'), JSON.stringify(bytePairDocument()))
    for (const path of [inside, join(inside, 'tokenizer.json')]) {
      const tokenizer = await loadTokenizer(path)
      const text = 'the thing in the inn\n\n    é日<|endoftext|>\tthe\n'
      const ids = await tokenizer.encode(utf8(text))
      expect([...ids]).toEqual([
        257, 32, 256, 259, 103, 32, 259, 258, 32, 259, 110, 260, 261, 32, 32, 195, 169, 230, 151, 165, 263, 9,
        257, 10,
      ])
      expect(ids).toBeInstanceOf(Uint16Array)
      expect(tokenizer.vocabularySize).toBe(264)
      expect(tokenizer.decode(ids)).toBe(text)
    }
  })

  test('of unigrams gives the ids of the reference library', async () => {
    const tokenizer = await loadTokenizer(store(JSON.stringify(unigram)))
    expect([...(await tokenizer.encode(utf8('the cats that')))]).toEqual([1, 6, 9, 2, 3, 4, 8, 3])
    expect([...(await tokenizer.encode(utf8('the zebra')))]).toEqual([1, 2, 0, 5, 0, 8])
    expect(tokenizer.vocabularySize).toBe(10)
  })

  test('takes a long text in pieces with the same result', async () => {
    const document = bytePairDocument()
    expect(isCuttable(document, ['<|endoftext|>'])).toBe(true)
    const tokenizer = await loadTokenizer(store(JSON.stringify(document)))
    const parts = fc.constantFrom(
      'the',
      ' the',
      '\n',
      '\n\n',
      ' ',
      '  ',
      "'s",
      '{',
      'é',
      '\u00a0',
      '\r\n',
      '日',
      '<|endoftext|>',
      '7',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(parts, { maxLength: 60 }), fc.nat(20), async (chosen, atLeast) => {
        const text = utf8(chosen.join(''))
        const pieces: number[] = []
        for (const piece of cutAtLines(text, atLeast)) pieces.push(...(await tokenizer.encode(piece)))
        expect(pieces).toEqual([...(await tokenizer.encode(text))])
      }),
    )
    const long = utf8('the thing\n'.repeat(120_000))
    const seen: number[] = []
    const { tokens } = await tokenizeText(long, 'long', { tokenizer, progress: (done) => seen.push(done) })
    expect(tokens.length).toBe(120_000 * 6)
    expect(seen.length).toBe(3)
    expect(seen.at(-1)).toBe(long.length)
  })

  test('is never cut where that could change the words', () => {
    const document = bytePairDocument()
    expect(isCuttable(document, ['a\nb'])).toBe(false)
    expect(isCuttable({ ...document, normalizer: { type: 'NFC' } }, [])).toBe(false)
    expect(isCuttable(unigram, [])).toBe(false)
    expect(isCuttable({}, [])).toBe(false)
    const steps = (type: string, prefix: boolean): object => ({
      type: 'Sequence',
      pretokenizers: [{ type }, { type: 'ByteLevel', add_prefix_space: prefix, use_regex: false }],
    })
    expect(isCuttable({ pre_tokenizer: steps('Split', false) }, [])).toBe(true)
    expect(isCuttable({ pre_tokenizer: steps('Split', true) }, [])).toBe(false)
    expect(isCuttable({ pre_tokenizer: steps('Metaspace', false) }, [])).toBe(false)
  })

  const document = bytePairDocument()
  const { model } = document
  test.each<[string, unknown, string]>([
    ['no JSON', '{', 'the file is not JSON'],
    ['a list', [], 'no object'],
    ['a config.json', { model_type: 'gpt2' }, 'there is no "model" in it'],
    ['no vocabulary', { ...document, model: { type: 'BPE' } }, 'model.vocab is missing or empty'],
    [
      'an id that would fill memory',
      { ...document, model: { ...model, vocab: { a: 4e9 } } },
      'token "a" has the id 4000000000',
    ],
    [
      'an id that is no number',
      { ...document, added_tokens: [{ content: 'x' }] },
      'token "x" has the id nothing',
    ],
    [
      'an unknown model',
      { ...document, model: { type: 'BPE', vocab: { a: 0 } } },
      'the tokenizer cannot be built',
    ],
    ['an unknown part', { ...document, normalizer: { type: 'Upper' } }, 'Unknown Normalizer type: Upper'],
    ['broken scores', { ...unigram, model: { type: 'Unigram', vocab: [['a']] } }, 'entry 0 of model.vocab'],
  ])('with %s is refused', async (_, content, message) => {
    const path = store(typeof content === 'string' ? content : JSON.stringify(content))
    const error = await refusal(loadTokenizer(path))
    expect([error.code, error.message]).toEqual(['TOKENIZER_INVALID', expect.stringContaining(message)])
    expect(error.at).toEqual({ file: path })
  })

  test('that is not there is said to be missing', async () => {
    expect((await refusal(loadTokenizer(join(folder, 'none.json')))).code).toBe('DATA_MISSING')
    expect((await refusal(loadTokenizer(folder))).message).toContain('there is no tokenizer file at')
  })
})

describe('a data file', () => {
  test('is read whole', async () => {
    const path = store('hello')
    const text = await readText(path)
    expect(text).toMatchObject({ source: path, bytes: 5, vocabularySize: 256, tokenizer: 'bytes' })
    expect([...text.tokens]).toEqual([...utf8('hello')])
  })

  test.each<[string, string | Uint8Array, string, string]>([
    ['empty', '', 'DATA_EMPTY', 'is empty (0 bytes)'],
    ['with a zero byte', 'abc\0def', 'DATA_BINARY', 'looks binary: byte 3 is zero'],
    [
      'of noise',
      Uint8Array.from({ length: 300 }, (_, i) => (i % 255) + 1),
      'DATA_BINARY',
      'of its first 300 bytes are not UTF-8',
    ],
  ])('that is %s is refused', async (_, content, code, message) => {
    const error = await refusal(readText(store(content)))
    expect([error.code, error.message, error.exitCode]).toEqual([code, expect.stringContaining(message), 2])
    expect(error.hint).toBeTruthy()
  })

  test('that is missing, a folder or a device is refused', async () => {
    expect((await refusal(readText(join(folder, 'none')))).code).toBe('DATA_MISSING')
    expect((await refusal(readText(folder))).message).toMatch(/is a folder, not a regular file$/)
    expect((await refusal(readText('/dev/zero'))).code).toBe('DATA_NOT_A_FILE')
  })

  test('in Latin-1 has byte tokens, but is no text for a tokenizer of characters', async () => {
    const path = store(Buffer.from('Der Weg führt über die Brücke am Fluss entlang.', 'latin1'))
    expect((await readText(path)).tokens[9]).toBe(0xfc)
    const tokenizer = await loadTokenizer(store(JSON.stringify(bytePairDocument())))
    expect(await refusal(readText(path, { tokenizer }))).toMatchObject({
      code: 'DATA_NOT_UTF8',
      message: `the data file ${path} is not UTF-8 at byte 9, and at 3 bytes in all`,
    })
  })

  test('that is binary is taken when asked for', async () => {
    const bytes = Uint8Array.of(0, 255, 0)
    expect([...(await readText(store(bytes), { binary: true })).tokens]).toEqual([0, 255, 0])
  })

  test('with a token beyond the vocabulary of the model names it', async () => {
    const text = await tokenizeText(utf8('abcé'), 'text')
    expect(() => checkVocabulary(text, 0xc4)).not.toThrow()
    expect(() => checkVocabulary(text, 99)).toThrow(
      expect.objectContaining({
        code: 'DATA_TOKEN_OUT_OF_VOCABULARY',
        message:
          "token 99 at position 2 of text is outside the model's vocabulary of 99; the largest token of the text is 195",
        hint: 'give the model a vocabulary of at least 196 (the tokenizer bytes can give 256)',
      }),
    )
  })
})

describe('invalidUtf8', () => {
  test('agrees with the platform decoder on what is valid, and finds the first bad byte', () => {
    const fragment = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 3 }).map((text) => [...utf8(text)]),
      fc.array(
        fc.constantFrom(
          0x41,
          0x80,
          0xbf,
          0xc0,
          0xc2,
          0xe0,
          0xa0,
          0xed,
          0x9f,
          0xf0,
          0x90,
          0xf4,
          0x8f,
          0xf5,
          0xff,
        ),
        { maxLength: 4 },
      ),
    )
    fc.assert(
      fc.property(fc.array(fragment, { maxLength: 4 }), (fragments) => {
        const bytes = Uint8Array.from(fragments.flat())
        const { count, first } = invalidUtf8(bytes)
        const valid = (part: Uint8Array): boolean => {
          try {
            new TextDecoder('utf-8', { fatal: true }).decode(part)
            return true
          } catch {
            return false
          }
        }
        expect(count === 0).toBe(valid(bytes))
        expect(first === -1).toBe(count === 0)
        if (first !== -1) expect(valid(bytes.subarray(0, first))).toBe(true)
      }),
      { numRuns: 500 },
    )
  })
})
