import { exitCodes, MeshwrightError } from '../base/index.ts'

/** The errno name of a Node system error (`ENOENT`), or undefined for any other value. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/**
 * What a failed read of `path` means to a person. `what` says which thing it should have been (`data file`). Errors
 * that are not from the system come back unchanged: they are either already explained or our own bugs.
 */
export function readFailure(path: string, what: string, cause: unknown): unknown {
  const code = systemErrorCode(cause)
  const details = { at: { file: path }, cause }
  switch (code) {
    case undefined:
      return cause
    case 'ENOENT':
    case 'ENOTDIR':
      return new MeshwrightError('DATA_MISSING', `there is no ${what} at ${path}`, {
        ...details,
        hint: 'check the path; it is taken from the folder the command runs in, or of the plan that names it',
      })
    case 'EACCES':
    case 'EPERM':
      return new MeshwrightError('DATA_NOT_READABLE', `the ${what} ${path} may not be read (${code})`, {
        ...details,
        hint: 'give this user read permission on it',
      })
    case 'EISDIR':
      return notAFile(path, what, 'is a folder')
    default:
      return new MeshwrightError('DATA_READ_FAILED', `reading the ${what} ${path} failed (${code})`, {
        ...details,
        hint: 'check the disk and the path',
      })
  }
}

/** What a failed write below or at `path` means to a person; other errors come back unchanged. */
export function writeFailure(path: string, cause: unknown): unknown {
  const code = systemErrorCode(cause)
  const details = { at: { file: path }, cause }
  switch (code) {
    case undefined:
      return cause
    case 'ENOSPC':
    case 'EDQUOT':
      return new MeshwrightError('DATA_DISK_FULL', `no space left to write ${path} (${code})`, {
        ...details,
        hint: 'free space on that disk, or choose another output folder',
        exitCode: exitCodes.run,
      })
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EEXIST':
    case 'EISDIR':
      return new MeshwrightError('DATA_NOT_WRITABLE', `${path} cannot be written (${code})`, {
        ...details,
        hint: 'choose an output folder that this user can create files in',
      })
    default:
      return new MeshwrightError('DATA_WRITE_FAILED', `writing ${path} failed (${code})`, {
        ...details,
        hint: 'check the disk and the path',
        exitCode: exitCodes.run,
      })
  }
}

export function notAFile(path: string, what: string, found: string): MeshwrightError {
  return new MeshwrightError('DATA_NOT_A_FILE', `the ${what} ${path} ${found}, not a regular file`, {
    at: { file: path },
    hint: 'give the path of one file',
  })
}
