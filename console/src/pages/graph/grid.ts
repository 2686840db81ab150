import type { Picture } from "./picture.ts";

/** The size of a cell, in units of the picture: a block of 4 by 8 objects. */
const cellWidth = 12;
const cellHeight = 8;

/** Grid finds the nodes of a part of the picture. */
export class Grid {
  private columns = 1;
  private rows = 1;
  /** The slots of cell i are slots[starts[i]] up to slots[starts[i+1]]. */
  private starts = new Uint32Array(2);
  private slots = new Uint32Array(0);

  /** build sorts all nodes into cells. */
  build(picture: Picture): void {
    const { x, y, number } = picture;
    let width = 0;
    let height = 0;
    for (let slot = 0; slot < picture.slots; slot++) {
      width = Math.max(width, x[slot] ?? 0);
      height = Math.max(height, y[slot] ?? 0);
    }
    this.columns = Math.floor(width / cellWidth) + 1;
    this.rows = Math.floor(height / cellHeight) + 1;
    const cells = new Uint32Array(picture.slots);
    const starts = new Uint32Array(this.columns * this.rows + 1);
    for (let slot = 0; slot < picture.slots; slot++) {
      if (number[slot] !== 0) {
        const cell = this.row(y[slot] ?? 0) * this.columns + this.column(x[slot] ?? 0);
        cells[slot] = cell;
        starts[cell + 1] = (starts[cell + 1] ?? 0) + 1;
      }
    }
    for (let i = 1; i < starts.length; i++) {
      starts[i] = (starts[i] ?? 0) + (starts[i - 1] ?? 0);
    }
    const next = starts.slice();
    this.slots = new Uint32Array(starts.at(-1) ?? 0);
    for (let slot = 0; slot < picture.slots; slot++) {
      if (number[slot] !== 0) {
        const cell = cells[slot] ?? 0;
        const at = next[cell] ?? 0;
        this.slots[at] = slot;
        next[cell] = at + 1;
      }
    }
    this.starts = starts;
  }

  private column(x: number): number {
    return Math.min(this.columns - 1, Math.max(0, Math.floor(x / cellWidth)));
  }

  private row(y: number): number {
    return Math.min(this.rows - 1, Math.max(0, Math.floor(y / cellHeight)));
  }

  /** visit calls a function for the nodes of all cells that a rectangle touches, row by row. */
  visit(left: number, top: number, right: number, bottom: number, call: (slot: number) => void): void {
    for (let row = this.row(top); row <= this.row(bottom); row++) {
      const from = this.starts[row * this.columns + this.column(left)] ?? 0;
      const to = this.starts[row * this.columns + this.column(right) + 1] ?? 0;
      for (let i = from; i < to; i++) {
        call(this.slots[i] ?? 0);
      }
    }
  }

  /** count returns how many nodes visit would call a function for. */
  count(left: number, top: number, right: number, bottom: number): number {
    let nodes = 0;
    for (let row = this.row(top); row <= this.row(bottom); row++) {
      nodes += (this.starts[row * this.columns + this.column(right) + 1] ?? 0) - (this.starts[row * this.columns + this.column(left)] ?? 0);
    }
    return nodes;
  }
}
