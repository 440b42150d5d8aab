/** Token ids of a text, in the narrowest array that holds the vocabulary. */
export type TokenArray = Uint8Array | Uint16Array | Int32Array

export interface Tokenizer {
  /** For messages and for checkpoints: `bytes`, or the tokenizer's file. */
  readonly name: string
  /** One more than the largest id it can give. */
  readonly vocabularySize: number
  /** Whether the text must be valid UTF-8; byte tokens can spell anything. */
  readonly needsUtf8: boolean
  /** `progress` is called now and then with the bytes done. */
  encode(text: Uint8Array, progress?: (bytesDone: number) => void): Promise<TokenArray>
  decode(tokens: ArrayLike<number>): string
}

/** Every byte is its own token: no vocabulary to fetch, any text fits. */
export function byteTokenizer(): Tokenizer {
  return {
    name: 'bytes',
    vocabularySize: 256,
    needsUtf8: false,
    encode: async (text) => text,
    decode: (tokens) => new TextDecoder().decode(Uint8Array.from(tokens)),
  }
}

/** Joins pieces of token ids into one array of the narrowest type for the vocabulary. */
export function joinTokens(pieces: readonly (readonly number[])[], vocabularySize: number): TokenArray {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const joined =
    vocabularySize <= 2 ** 8
      ? new Uint8Array(length)
      : vocabularySize <= 2 ** 16
        ? new Uint16Array(length)
        : new Int32Array(length)
  let position = 0
  for (const piece of pieces) {
    joined.set(piece, position)
    position += piece.length
  }
  return joined
}
