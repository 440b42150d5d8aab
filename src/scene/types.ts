import type { Token } from './tokens.ts'

/**
 * A drawing as plain data, in pixels from the top left corner. It knows nothing of files, browsers or colours: a token
 * says what something is, a theme what colour that has. Every coordinate has at most two decimals, so that whoever
 * draws it, draws the same.
 */
export interface Scene {
  readonly title: string
  /** One sentence that says what there is to see. */
  readonly description: string
  readonly width: number
  readonly height: number
  /** Where time is drawn: from `x` (time 0) to `x + width` (the end of the timeline). */
  readonly plot: Area
  readonly items: readonly SceneItem[]
  readonly counts: SceneCounts
}

export interface Area {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** `boxes = drawn + merged + hidden` of the timeline. */
export interface SceneCounts {
  readonly boxes: number
  readonly drawn: number
  /** Too narrow, or too many at once, to be seen apart: part of a density strip. */
  readonly merged: number
  /** In rows or lanes beyond those drawn, or of no length. */
  readonly hidden: number
}

export type SceneItem = SceneRect | SceneLine | SceneText | SceneArea

/** How a rectangle is told from others without colour. */
export type Mark = 'plain' | 'top' | 'bottom' | 'both' | 'ends' | 'hatch'

export interface SceneRect extends Area {
  readonly kind: 'rect'
  readonly role: 'background' | 'idle' | 'box' | 'density' | 'key'
  readonly fill: Token
  readonly mark: Mark
  /** Whether a thin line in the colour of the surface sets it off from its neighbours. */
  readonly edged: boolean
  readonly tooltip?: string
  /** The box of the timeline that it is. `lane` -1 is the row itself. */
  readonly source?: { readonly row: number; readonly lane: number; readonly box: number }
}

export interface SceneLine {
  readonly kind: 'line'
  readonly x1: number
  readonly y1: number
  readonly x2: number
  readonly y2: number
  readonly stroke: Token
  readonly dashed: boolean
}

export interface SceneText {
  readonly kind: 'text'
  /** Of the baseline. */
  readonly x: number
  readonly y: number
  readonly text: string
  readonly size: number
  readonly anchor: 'start' | 'middle' | 'end'
  readonly fill: Token
  readonly face: 'text' | 'number' | 'heading'
}

/** The area under a step function, and its upper edge. */
export interface SceneArea {
  readonly kind: 'area'
  /** Corners of the upper edge, left to right. */
  readonly points: readonly (readonly [number, number])[]
  readonly base: number
  readonly fill: Token
  readonly stroke: Token
  readonly tooltip?: string
}
