import { MeshwrightError } from '../../base/index.ts'
import { readWholeFile } from '../files.ts'
import { byteTokenizer, type TokenArray, type Tokenizer } from './tokenizer.ts'
import { invalidUtf8 } from './utf8.ts'

/** A tokenized text, whole. */
export interface TokenizedText {
  /** File name or description, for messages. */
  readonly source: string
  readonly bytes: number
  readonly tokens: TokenArray
  readonly vocabularySize: number
  readonly tokenizer: string
}

export interface TextOptions {
  /** Byte tokens by default. */
  readonly tokenizer?: Tokenizer
  /** Take bytes that do not look like text. */
  readonly binary?: boolean
  readonly progress?: (bytesDone: number) => void
}

const largestTextBytes = 2 ** 30

/** Text in an old 8-bit encoding stays below this share of bytes that are not UTF-8; binary data is far above. */
const textShareInvalid = 0.1

/** Enough to tell text from data. */
const inspectedBytes = 2 ** 22

/**
 * Reads and tokenizes a text file whole.
 *
 * @throws MeshwrightError `DATA_MISSING`, `DATA_NOT_READABLE`, `DATA_NOT_A_FILE`, `DATA_TOO_LARGE` (over 1 GiB), and
 * as `tokenizeText`
 */
export async function readText(path: string, options: TextOptions = {}): Promise<TokenizedText> {
  return tokenizeText(readWholeFile(path, 'data file', largestTextBytes), path, options)
}

/**
 * Tokenizes a text that is in memory.
 *
 * @throws MeshwrightError `DATA_EMPTY`, `DATA_BINARY`, `DATA_NOT_UTF8` (a tokenizer that needs UTF-8), `TOKENIZER_INVALID`
 */
export async function tokenizeText(
  text: Uint8Array,
  source: string,
  options: TextOptions = {},
): Promise<TokenizedText> {
  const tokenizer = options.tokenizer ?? byteTokenizer()
  const at = { file: source }
  if (text.byteLength === 0) {
    throw new MeshwrightError('DATA_EMPTY', `the data file ${source} is empty (0 bytes)`, {
      at,
      hint: 'give a file with text in it',
    })
  }
  if (options.binary !== true) refuseBinary(text, source)
  if (tokenizer.needsUtf8) {
    const { count, first } = invalidUtf8(text)
    if (count > 0) {
      throw new MeshwrightError(
        'DATA_NOT_UTF8',
        `the data file ${source} is not UTF-8 at byte ${first}, and at ${count} bytes in all`,
        { at, hint: 'convert it to UTF-8, or use the byte tokenizer' },
      )
    }
  }
  const tokens = await tokenizer.encode(text, options.progress)
  return {
    source,
    bytes: text.byteLength,
    tokens,
    vocabularySize: tokenizer.vocabularySize,
    tokenizer: tokenizer.name,
  }
}

function refuseBinary(text: Uint8Array, source: string): void {
  const refuse = (found: string): MeshwrightError =>
    new MeshwrightError('DATA_BINARY', `the data file ${source} looks binary: ${found}`, {
      at: { file: source },
      hint: 'give plain text; UTF-16 and compressed files must be converted first',
    })
  const zero = text.indexOf(0)
  if (zero !== -1) throw refuse(`byte ${zero} is zero`)
  const inspected = text.subarray(0, inspectedBytes)
  const { count } = invalidUtf8(inspected)
  if (count > textShareInvalid * inspected.byteLength) {
    throw refuse(`${count} of its first ${inspected.byteLength} bytes are not UTF-8`)
  }
}

/**
 * Checks that every token is below the model's vocabulary size.
 *
 * @throws MeshwrightError `DATA_TOKEN_OUT_OF_VOCABULARY` naming the token, its position and the vocabulary needed
 */
export function checkVocabulary(text: TokenizedText, vocabularySize: number): void {
  const { tokens } = text
  let first = -1
  let largest = 0
  for (let position = 0; position < tokens.length; position++) {
    const token = tokens[position]!
    if (token >= vocabularySize && first === -1) first = position
    if (token > largest) largest = token
  }
  if (first === -1) return
  throw new MeshwrightError(
    'DATA_TOKEN_OUT_OF_VOCABULARY',
    `token ${tokens[first]} at position ${first} of ${text.source} is outside the model's vocabulary of ` +
      `${vocabularySize}; the largest token of the text is ${largest}`,
    {
      at: { file: text.source },
      hint: `give the model a vocabulary of at least ${largest + 1} (the tokenizer ${text.tokenizer} can give ${text.vocabularySize})`,
    },
  )
}
