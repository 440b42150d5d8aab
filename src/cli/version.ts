import { readFileSync } from 'node:fs'

/** Version of this package; src/cli and dist/cli lie equally deep. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return (manifest as { version: string }).version
}
