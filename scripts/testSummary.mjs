// Reads Vitest's JSON report and prints what was skipped, then `N passed, N failed` alone on the last line.
// usage: node scripts/testSummary.mjs REPORT EXIT_STATUS_OF_THE_TESTS NUMBER_OF_OTHER_CHECKS_THAT_FAILED
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

const [reportPath, status, otherFailures] = process.argv.slice(2)
const report = existsSync(reportPath) ? JSON.parse(readFileSync(reportPath, 'utf8')) : { testResults: [] }

const tests = report.testResults.flatMap((file) =>
  file.assertionResults.map((test) => ({ ...test, file: relative(process.cwd(), file.name) })),
)
const passed = tests.filter((test) => test.status === 'passed')
const failed = tests.filter((test) => test.status === 'failed')
const skipped = tests.filter((test) => test.status !== 'passed' && test.status !== 'failed')

for (const test of failed) console.log(`failed: ${test.file} > ${test.fullName}`)
for (const test of skipped) console.log(`skipped: ${test.file} > ${test.fullName}`)
console.log(`${skipped.length} skipped`)

// A file that cannot be loaded has no tests to fail, and an error outside every test fails the run alone.
const broken = report.testResults.filter(
  (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
)
for (const file of broken) console.log(`failed: ${relative(process.cwd(), file.name)} as a whole`)
let failures = failed.length + broken.length
if (failures === 0 && Number(status) !== 0) {
  console.log('failed: the tests ended with an error outside every test')
  failures = 1
}
if (Number(otherFailures) > 0)
  console.log(`failed: ${otherFailures} of the checks before the tests, counted below`)
console.log(`${passed.length} passed, ${failures + Number(otherFailures)} failed`)
