// What `npm pack` would publish: every door of `exports` and what the commands need, and nothing that is not for users.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

const [packed] = JSON.parse(
  execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }),
)
const files = packed.files.map((file) => file.path)

const doors = Object.values(manifest.exports).flatMap((target) =>
  typeof target === 'string' ? [target] : Object.values(target),
)
const wanted = [...doors, ...Object.values(manifest.bin), 'README.md', 'LICENSE'].map((path) =>
  path.replace(/^\.\//, ''),
)
const missing = wanted.filter((path) => !files.includes(path))
if (!files.some((path) => path.startsWith('examples/'))) missing.push('examples/')

const allowed =
  /^(src\/plan\/plan\.schema\.json|dist\/.+\.(js|d\.ts|json)|examples\/.+|README\.md|LICENSE|package\.json)$/
const unwanted = files.filter(
  (path) => !allowed.test(path) || /\.test\.|\/test[A-Z]|(^|\/)fixtures\//.test(path),
)

for (const path of missing) console.error(`the package lacks ${path}`)
for (const path of unwanted) console.error(`the package holds ${path}, which is not for users`)
console.log(
  `${files.length} files, ${(packed.size / 1024).toFixed(0)} KiB packed, ${(packed.unpackedSize / 1024).toFixed(0)} KiB unpacked`,
)
process.exitCode = missing.length + unwanted.length === 0 ? 0 : 1
