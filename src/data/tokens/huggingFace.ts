import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { MeshwrightError } from '../../base/index.ts'
import { readWholeFile } from '../files.ts'
import { quoted } from '../strictJson.ts'
import { cutAtLines, isCuttable } from './pieces.ts'
import { joinTokens, type Tokenizer } from './tokenizer.ts'

const largestTokenizerBytes = 2 ** 27
const largestVocabulary = 2 ** 24

/** A text that cannot be cut is held as one string of tokens, at some fifty bytes a character. */
const largestWholeText = 2 ** 24
const pieceBytes = 2 ** 19

/**
 * Loads a Hugging Face `tokenizer.json` (or the folder it is in); `tokenizer_config.json` beside it is used when it is
 * there. No special tokens are added around a text. The tokenizer library is loaded only here.
 *
 * @throws MeshwrightError `TOKENIZER_INVALID` saying what is wrong, `DATA_*` when the file cannot be read
 */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  const file = existsSync(path) && statSync(path).isDirectory() ? join(path, 'tokenizer.json') : path
  const document = parseObject(file)
  const configFile = join(dirname(file), 'tokenizer_config.json')
  const config = existsSync(configFile) ? parseObject(configFile) : {}
  const vocabularySize = countVocabulary(document, file)
  const added = (document['added_tokens'] as readonly AddedToken[] | undefined) ?? []
  // The library insists on the keys that the format lets a file leave out.
  const complete = {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    ...document,
    added_tokens: added,
  }
  const { Tokenizer: Library } = await import('@huggingface/tokenizers')
  let library: InstanceType<typeof Library>
  try {
    library = new Library(complete, config)
    library.encode('a', { add_special_tokens: false })
  } catch (cause) {
    throw invalid(file, `the tokenizer cannot be built: ${(cause as Error).message}`)
  }
  const cuttable = isCuttable(
    document,
    added.map(({ content }) => content),
  )

  function encodePiece(bytes: Uint8Array): readonly number[] {
    if (bytes.byteLength > largestWholeText) {
      throw new MeshwrightError(
        'DATA_TOO_LARGE',
        `${bytes.byteLength} bytes of text would have to be tokenized at once; the most is ${largestWholeText}`,
        {
          at: { file },
          hint: 'give a smaller text, or a byte-level tokenizer, which can take a text line by line',
        },
      )
    }
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
    const { ids, tokens } = library.encode(text, { add_special_tokens: false })
    const unknown = (ids as readonly (number | undefined)[]).indexOf(undefined)
    if (unknown !== -1) {
      throw invalid(
        file,
        `the vocabulary has no id for ${quoted(tokens[unknown] ?? '')} and there is no unknown token`,
      )
    }
    return ids
  }

  return {
    name: file,
    vocabularySize,
    needsUtf8: true,
    async encode(text, progress) {
      const pieces: (readonly number[])[] = []
      let done = 0
      for (const piece of cuttable ? cutAtLines(text, pieceBytes) : [text]) {
        pieces.push(encodePiece(piece))
        done += piece.byteLength
        progress?.(done)
        await new Promise((resolve) => setImmediate(resolve))
      }
      return joinTokens(pieces, vocabularySize)
    },
    decode: (tokens) =>
      tokens.length === 0 ? '' : library.decode(Array.from(tokens), { clean_up_tokenization_spaces: false }),
  }
}

interface AddedToken {
  readonly id: number
  readonly content: string
}

function invalid(file: string, message: string): MeshwrightError {
  return new MeshwrightError('TOKENIZER_INVALID', message, {
    at: { file },
    hint: 'give the tokenizer.json of a Hugging Face model, or leave the option out for byte tokens',
  })
}

function parseObject(file: string): Record<string, unknown> {
  const bytes = readWholeFile(file, 'tokenizer file', largestTokenizerBytes)
  let root: unknown
  try {
    root = JSON.parse(new TextDecoder().decode(bytes))
  } catch (cause) {
    throw invalid(file, `the file is not JSON: ${(cause as Error).message}`)
  }
  if (!isRecord(root)) throw invalid(file, 'the file is JSON but no object')
  return root
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The largest id + 1. Ids are checked because the library makes an array as long as the largest of them. */
function countVocabulary(document: Record<string, unknown>, file: string): number {
  const model = document['model']
  if (!isRecord(model)) throw invalid(file, 'there is no "model" in it')
  const vocabulary = model['vocab']
  let size = 0
  const count = (token: string, id: unknown): void => {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= largestVocabulary) {
      throw invalid(
        file,
        `token ${quoted(token)} has the id ${JSON.stringify(id) ?? 'nothing'}, no whole number below ${largestVocabulary}`,
      )
    }
    size = Math.max(size, id + 1)
  }
  if (Array.isArray(vocabulary)) {
    const wrong = vocabulary.findIndex(
      (entry: unknown) =>
        !Array.isArray(entry) || typeof entry[0] !== 'string' || typeof entry[1] !== 'number',
    )
    if (wrong !== -1) throw invalid(file, `entry ${wrong} of model.vocab is no pair of token and score`)
    size = vocabulary.length
  } else if (isRecord(vocabulary)) {
    for (const [token, id] of Object.entries(vocabulary)) count(token, id)
  }
  if (size === 0) throw invalid(file, 'model.vocab is missing or empty')
  const added = document['added_tokens'] ?? []
  if (!Array.isArray(added)) throw invalid(file, 'added_tokens is no list')
  for (const token of added as readonly unknown[]) {
    if (!isRecord(token) || typeof token['content'] !== 'string') {
      throw invalid(file, 'an entry of added_tokens has no content')
    }
    count(token['content'], token['id'])
  }
  return size
}
