/** hand-written Programs, one for each system of the papers (test/specimens). */
import { readdirSync, readFileSync } from 'node:fs'

const folder = new URL('../specimens/', import.meta.url)

export interface Specimen {
  /** As in `04-cyclic-data-parallelism`. */
  readonly name: string
  readonly number: string
  readonly text: string
}

export const specimens: readonly Specimen[] = readdirSync(folder)
  .sort()
  .map((file) => ({
    name: file.replace('.program', ''),
    number: file.slice(0, 2),
    text: readFileSync(new URL(file, folder), 'utf8'),
  }))

/** The text of the specimen of that number, changed by `changes`, each of which must find something. */
export function specimenText(
  number: string,
  changes: readonly (readonly [string | RegExp, string])[] = [],
): string {
  const found = specimens.find((specimen) => specimen.number === number)
  if (found === undefined) throw new Error(`no specimen ${number}`)
  return changes.reduce((text, [from, to]) => {
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`nothing in specimen ${number} matches ${from}`)
    return changed
  }, found.text)
}
