/** Width of text in a drawing, of which only the font's size is known: estimates that are rather too wide. */

/** Digits and letters of the monospaced faces in use are 0.60 to 0.61 of their size. */
const monospaceShare = 0.61

export function textWidth(text: string, size: number, face: 'text' | 'number' | 'heading'): number {
  let width = 0
  for (const character of text)
    if ((character.codePointAt(0) ?? 0) >= 0x1100) width += 1.05
    else width += face === 'number' ? monospaceShare : proportionalShare(character)
  return width * size * (face === 'heading' ? 1.1 : 1)
}

/** As in the wider faces that `sans-serif` may be. */
function proportionalShare(character: string): number {
  if (/[iljtfr .,:;'|!()-]/.test(character)) return 0.37
  if (/[mwMW%@]/.test(character)) return 0.92
  return /[A-Z]/.test(character) ? 0.69 : 0.61
}

/**
 * Text that any XML document can hold (no control characters, no half of a surrogate pair), on one line, cut to a
 * number of characters.
 */
export function cleanText(text: string, most: number): string {
  // A character is at most two code units: what lies beyond is not worth the look.
  const characters = Array.from(text.slice(0, 2 * most + 2), (character) =>
    forbidden(character.codePointAt(0) ?? 0) ? '\ufffd' : /\s/.test(character) ? ' ' : character,
  )
  return characters.length <= most ? characters.join('') : `${characters.slice(0, most - 1).join('')}…`
}

function forbidden(code: number): boolean {
  const control = code < 0x20 && code !== 0x9 && code !== 0xa && code !== 0xd
  const reserved = (code >= 0xd800 && code <= 0xdfff) || (code & 0xfffe) === 0xfffe
  // Characters that reverse or hide what follows them.
  const direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)
  return control || reserved || direction || (code >= 0x7f && code <= 0x9f)
}

/** Cuts a text that is wider than it may be. */
export function fitText(
  text: string,
  width: number,
  size: number,
  face: 'text' | 'number' | 'heading',
): string {
  const characters = Array.from(text)
  let length = characters.length
  const shown = (): string => (length < characters.length ? `${characters.slice(0, length).join('')}…` : text)
  while (length > 1 && textWidth(shown(), size, face) > width) length--
  return shown()
}

/** Lines no wider than `width`, broken between words; what is left over after `most` lines is cut. */
export function wrapText(text: string, width: number, size: number, most: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (line !== '' && textWidth(longer, size, 'text') > width) {
      lines.push(line)
      line = word
    } else line = longer
  }
  lines.push(line)
  const kept = lines.length <= most ? lines : [...lines.slice(0, most - 1), `${lines[most - 1]} …`]
  return kept.map((one) => fitText(one, width, size, 'text'))
}
