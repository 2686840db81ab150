/** The size of a tile, in pixels. */
const tileWidth = 4;
const tileHeight = 3;

/** Taken says which parts of the screen have a node or a label, in tiles. */
export class Taken {
  private readonly columns: number;
  private readonly rows: number;
  private readonly tiles: Uint8Array;

  constructor({ width, height }: { width: number; height: number }) {
    this.columns = Math.ceil(width / tileWidth) + 1;
    this.rows = Math.ceil(height / tileHeight) + 1;
    this.tiles = new Uint8Array(this.columns * this.rows);
  }

  private column(x: number): number {
    return Math.min(this.columns - 1, Math.max(0, Math.floor(x / tileWidth)));
  }

  private row(y: number): number {
    return Math.min(this.rows - 1, Math.max(0, Math.floor(y / tileHeight)));
  }

  take(x: number, y: number, width: number, height: number): void {
    for (let row = this.row(y); row <= this.row(y + height); row++) {
      this.tiles.fill(1, row * this.columns + this.column(x), row * this.columns + this.column(x + width) + 1);
    }
  }

  /** room returns how much of a width is free to the right of a place. */
  room(x: number, y: number, width: number, height: number): number {
    const first = this.column(x);
    let last = this.column(x + width);
    for (let row = this.row(y); row <= this.row(y + height); row++) {
      for (let column = first; column <= last; column++) {
        if (this.tiles[row * this.columns + column] !== 0) {
          last = column - 1;
        }
      }
    }
    return Math.min(width, (last + 1) * tileWidth - x);
  }
}
