import type { BufferSpec, Operand, Peer, Role, ValueInstance, ValueRef } from '../types.ts'
import { printName } from './tokens.ts'

/** `x0[3]` for a micro-batch, `kv0[3,s1]` for a slice of it, `w0[t+1]` for state, `p0[u2]` for a window, or the bare name. */
export function formatValue(role: Role, value: ValueRef): string {
  const instance = role.values[value]
  if (instance === undefined) return '?'
  return formatName(role.buffers[instance.buffer]) + formatIndex(instance)
}

/** `g0{0:128}` for rows 0 to 127 of it. */
export function formatOperand(role: Role, operand: Operand): string {
  return formatValue(role, operand.value) + formatRegion(role, operand)
}

/**
 * Operands one after the other; three and more of buffers numbered through, otherwise alike, as `r0.0..4[1]` for
 * `r0.0[1]` to `r0.4[1]`. `suffix` is what stands behind each.
 */
export function formatOperands<T extends Operand>(
  role: Role,
  operands: readonly T[],
  suffix: (operand: T) => string = () => '',
): string[] {
  const items = operands.map((operand) => {
    const instance = role.values[operand.value]
    const name = formatName(role.buffers[instance?.buffer ?? -1])
    const rest = `${instance === undefined ? '' : formatIndex(instance)}${formatRegion(role, operand)}`
    return { name, rest: rest + suffix(operand), ...splitNumber(name) }
  })
  const texts: string[] = []
  for (let index = 0; index < items.length; ) {
    const first = items[index]!
    let end = index + 1
    if (first.number !== undefined)
      while (
        items[end]?.prefix === first.prefix &&
        items[end]!.rest === first.rest &&
        items[end]!.number === first.number + (end - index)
      )
        end++
    if (end - index < 3) end = index + 1
    const range = end === index + 1 ? '' : `..${items[end - 1]!.number}`
    texts.push(first.name + range + first.rest)
    index = end
  }
  return texts
}

/** `r0.12` as `r0.` and 12. A name that does not end in a number, or is quoted, is all prefix. */
export function splitNumber(name: string): { readonly prefix: string; readonly number: number | undefined } {
  const digits = name.startsWith('"') ? undefined : /(?:0|[1-9]\d{0,8})$/.exec(name)?.[0]
  if (digits === undefined) return { prefix: name, number: undefined }
  return { prefix: name.slice(0, -digits.length), number: Number(digits) }
}

function formatName(buffer: BufferSpec | undefined): string {
  return buffer === undefined ? '?' : printName(buffer.name)
}

function formatIndex({ step, microbatch, slice, window }: Omit<ValueInstance, 'buffer' | 'slot'>): string {
  const index = [
    ...(step === undefined ? [] : [`t${step === 0 ? '' : signed(step)}`]),
    ...(microbatch === undefined ? [] : [String(microbatch)]),
    ...(slice === undefined ? [] : [`s${slice}`]),
    ...(window === undefined ? [] : [`u${window}`]),
  ]
  return index.length === 0 ? '' : `[${index.join(',')}]`
}

function formatRegion(role: Role, operand: Operand): string {
  if (operand.region === undefined) return ''
  const region = role.regions[operand.region]
  return region === undefined ? '{?}' : `{${region.start}:${region.end}}`
}

/** `pipeline+1`, followed by the other axes where they differ from one's own: `data=(2*data+1)/3`, rounded down. */
export function formatPeer(peer: Peer | undefined): string {
  if (peer === undefined) return '?'
  const axes = peer.axes.map((axis) => ` ${printName(axis.name)}=${formatCoordinate(axis)}`)
  return `pipeline${signed(peer.pipeline)}${axes.join('')}`
}

function formatCoordinate({ name, scale, offset, divisor }: Peer['axes'][number]): string {
  const term = scale === 1 ? printName(name) : `${scale}*${printName(name)}`
  const sum = offset === 0 ? term : term + signed(offset)
  if (divisor === 1) return scale === 0 && offset >= 0 ? String(offset) : sum
  return offset === 0 ? `${term}/${divisor}` : `(${sum})/${divisor}`
}

function signed(value: number): string {
  return value < 0 ? String(value) : `+${value}`
}
