/**
 * The inverse of the normal distribution from additions, products, quotients and square roots alone, which IEEE 754
 * rounds the same way everywhere; `Math.log` and its like may differ by a bit from one engine to the next.
 */

/** 2^64, 2^32, … 2^1 and their exponents. */
const powers = [4294967296 * 4294967296, 4294967296, 65536, 256, 16, 4, 2]
const exponents = [64, 32, 16, 8, 4, 2, 1]

/** ln of a value in (2^-127, 2), to about one unit in the last place. */
function exactLog(value: number): number {
  // Powers of two are exact, so this loses nothing: mantissa in [sqrt(1/2), sqrt(2)).
  let mantissa = value
  let exponent = 0
  powers.forEach((power, index) => {
    if (mantissa * power >= 2 * Math.SQRT1_2) return
    mantissa *= power
    exponent -= exponents[index]!
  })
  // ln m = 2 artanh((m - 1) / (m + 1)); the argument is below 0.172, so 11 terms reach the last bit.
  const argument = (mantissa - 1) / (mantissa + 1)
  const square = argument * argument
  let series = 0
  for (let odd = 21; odd >= 1; odd -= 2) series = series * square + 1 / odd
  return exponent * Math.LN2 + 2 * argument * series
}

function polynomial(coefficients: readonly number[], at: number): number {
  let value = 0
  for (let power = coefficients.length - 1; power >= 0; power--) value = value * at + coefficients[power]!
  return value
}

interface Rational {
  readonly numerator: readonly number[]
  readonly denominator: readonly number[]
}

function quotient(rational: Rational, at: number, factor: number = 1): number {
  return (polynomial(rational.numerator, at) * factor) / polynomial(rational.denominator, at)
}

// Coefficients, lowest power first, of PPND16 (Wichura, "Algorithm AS 241: the percentage points of the normal
// distribution", Applied Statistics 37, 1988). Relative error about 1e-16.
const central: Rational = {
  numerator: [
    3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946, 45921.95393154987,
    67265.7709270087, 33430.57558358813, 2509.0809287301227,
  ],
  denominator: [
    1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597, 39307.89580009271,
    28729.085735721943, 5226.495278852854,
  ],
}
const shoulder: Rational = {
  numerator: [
    1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684,
    0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
  ],
  denominator: [
    1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008, 0.015198666563616457,
    0.0005475938084995345, 1.0507500716444169e-9,
  ],
}
const tail: Rational = {
  numerator: [
    6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124,
    0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7,
  ],
  denominator: [
    1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133,
    1.8463183175100548e-5, 1.421511758316446e-7, 2.0442631033899397e-15,
  ],
}

/** The x below which a standard normal variable falls with `probability` in (0, 1). */
export function inverseNormal(probability: number): number {
  const offset = probability - 0.5
  if (Math.abs(offset) <= 0.425) return quotient(central, 0.180625 - offset * offset, offset)
  const depth = Math.sqrt(-exactLog(offset < 0 ? probability : 1 - probability))
  const size = depth <= 5 ? quotient(shoulder, depth - 1.6) : quotient(tail, depth - 5)
  return offset < 0 ? -size : size
}
