/** One unit of a camera is so many units of the picture. All pictures have the same scale, so that growth changes no camera. */
export const scale = 1000;

/** View maps the picture to the screen: a position is at (x * unit + left, y * unit + top), in pixels of CSS. */
export interface View {
  unit: number;
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The size of the buttons for zooming, with their margins, in pixels: they are at the top right of the window. */
export const zoomButtons = { width: 56, height: 108 };

/** Below so many pixels of a unit nodes are points: all have nearly the same size, and closed ones have no ring. */
export const pointsBelow = 6;

/** radiusOf returns the radius of a node on the screen, as the shader of shapes computes it. size is that of sizeOf. */
export function radiusOf(unit: number, size: number, kind: number, state: number): number {
  const base = Math.min(5.5, Math.max(state > 1 || kind > 0 ? 2 : 1.1, unit * 0.3));
  return base * (1 + (size - 1) * Math.min(1, unit / pointsBelow));
}

/** sizeOf is how much larger than others a node is: a closed one or a group by the number of objects below it. */
export function sizeOf(below: number, closed: boolean, kind: number): number {
  return closed || kind > 0 ? 1.15 + 0.14 * Math.log10(1 + below) : 1;
}
