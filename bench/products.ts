import { median } from '../src/base/index.ts'
import type { Side } from './side.ts'
import type { ProductResult, ProductSizes } from './types.ts'

/** Some 20 to 40 milliseconds of products. */
const operationsPerTurn = 4e9

/** Rates of one product on both sides. The first product of each turn warms up. */
export class ProductClock {
  private readonly sizes: ProductSizes
  private readonly times: number
  private readonly seconds: Record<'ours' | 'torch', number[]> = { ours: [], torch: [] }

  constructor(sizes: ProductSizes) {
    this.sizes = sizes
    this.times = Math.max(3, Math.round(operationsPerTurn / productOperations(sizes)))
  }

  async turn(name: 'ours' | 'torch', side: Side): Promise<void> {
    const { seconds } = await side.ask({ multiply: this.times, sizes: this.sizes })
    this.seconds[name].push(...seconds.slice(1))
  }

  result(): ProductResult {
    const rate = (name: 'ours' | 'torch'): number =>
      productOperations(this.sizes) / median(this.seconds[name])
    return { sizes: this.sizes, ours: rate('ours'), torch: rate('torch') }
  }
}

function productOperations([m, k, n]: ProductSizes): number {
  return 2 * m * k * n
}
