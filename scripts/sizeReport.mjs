// Lines of code by room, and the files that are too long. Fails when a file passes the limit and is not listed below.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const limit = 400

/** Files that may be longer, each with the reason: tables of data read no better in two halves. */
const tables = {}

const folders = ['src', 'test', 'bench', 'scripts', 'studio', 'python']
const endings = /\.(ts|tsx|mjs|py)$/

/** Lines that hold something other than blanks and comments. Strings that look like comments are counted as such. */
function codeLines(lines, python) {
  let count = 0
  let inComment = false
  for (const line of lines) {
    const text = line.trim()
    if (inComment) inComment = !text.includes('*/')
    else if (text === '' || text.startsWith(python ? '#' : '//')) continue
    else if (!python && text.startsWith('/*')) inComment = !text.includes('*/')
    else count++
  }
  return count
}

const files = folders
  .filter((folder) => existsSync(join(root, folder)))
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => endings.test(name) && !name.includes('node_modules'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  )
  .sort()
  .map((path) => {
    const lines = readFileSync(join(root, path), 'utf8').replace(/\n$/, '').split('\n')
    const [folder, room] = path.split('/')
    return {
      path,
      room: folder === 'src' ? room : folder,
      test: path.endsWith('.test.ts') || folder === 'test',
      lines: lines.length,
      code: codeLines(lines, path.endsWith('.py')),
    }
  })

const rooms = new Map()
for (const file of files) {
  const room = rooms.get(file.room) ?? { files: 0, code: 0, testCode: 0, longest: 0 }
  rooms.set(file.room, room)
  room.files++
  room[file.test ? 'testCode' : 'code'] += file.code
  room.longest = Math.max(room.longest, file.lines)
}

const row = (name, files, code, testCode, longest) =>
  `${name.padEnd(12)}${[files, code, testCode, longest].map((cell) => String(cell).padStart(10)).join('')}`
console.log(row('room', 'files', 'code', 'tests', 'longest'))
for (const [name, room] of rooms) console.log(row(name, room.files, room.code, room.testCode, room.longest))
const total = (key) => [...rooms.values()].reduce((sum, room) => sum + room[key], 0)
console.log(
  row(
    'total',
    total('files'),
    total('code'),
    total('testCode'),
    Math.max(...files.map((file) => file.lines)),
  ),
)

const ordered = files
  .filter((file) => !file.test)
  .map((file) => file.lines)
  .sort((a, b) => a - b)
console.log(`median file: ${ordered[Math.floor(ordered.length / 2)]} lines`)

let wrong = 0
for (const { path, lines } of files) {
  if (lines <= limit || tables[path] !== undefined) continue
  console.error(`${path} has ${lines} lines: more than ${limit} ask to be two files`)
  wrong++
}
for (const path of Object.keys(tables)) {
  if (files.some((file) => file.path === path && file.lines > limit)) continue
  console.error(`${path} is listed as a long table of data, but is none`)
  wrong++
}
process.exitCode = wrong === 0 ? 0 : 1
