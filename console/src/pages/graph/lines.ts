import { boxesOf } from "./boxes.ts";
import { kinds, lineBit } from "./look.ts";
import { rgb, type Palette } from "./palette.ts";
import type { Picture } from "./picture.ts";
import { scale } from "./view.ts";

const vertexShader = `
attribute vec2 a_position;
attribute float a_along;
uniform mat3 u_matrix;
uniform float u_scale;
varying float v_along;
void main() {
  v_along = a_along;
  gl_Position = vec4((u_matrix * vec3(a_position.x / u_scale, 1.0 - a_position.y / u_scale, 1.0)).xy, 0.0, 1.0);
}
`;

// A dash has as many pixels as the gap behind it. Lines without dashes have the length 0.
const fragmentShader = `
precision mediump float;
uniform vec4 u_colour;
uniform float u_unit;
varying float v_along;
void main() {
  if (mod(v_along * u_unit, 9.0) > 4.5) discard;
  gl_FragColor = vec4(u_colour.rgb * u_colour.a, u_colour.a);
}
`;

/** Vertices grow as some are added: x, y, and how far from the beginning of a dashed line. */
class Vertices {
  private array = new Float32Array(1024);
  private length = 0;

  clear(): void {
    this.length = 0;
  }

  add(x: number, y: number, along: number): void {
    if (this.length + 3 > this.array.length) {
      const grown = new Float32Array(2 * this.array.length);
      grown.set(this.array);
      this.array = grown;
    }
    this.array[this.length++] = x;
    this.array[this.length++] = y;
    this.array[this.length++] = along;
  }

  /** addBetween adds a line between two nodes, if both are shown. */
  addBetween({ x, y }: Picture, from: number, to: number, dashed: boolean): void {
    if (from >= 0 && to >= 0) {
      const [x0, y0, x1, y1] = [x[from] ?? 0, y[from] ?? 0, x[to] ?? 0, y[to] ?? 0];
      this.add(x0, y0, 0);
      this.add(x1, y1, dashed ? Math.hypot(x1 - x0, y1 - y0) : 0);
    }
  }

  get used(): Float32Array {
    return this.array.subarray(0, this.length);
  }
}

function shader(gl: WebGLRenderingContext, type: number, source: string): WebGLShader {
  const made = gl.createShader(type);
  if (made === null) {
    throw new Error("WebGL cannot create a shader");
  }
  gl.shaderSource(made, source);
  gl.compileShader(made);
  return made;
}

/** Below so many pixels of a unit the lines from groups become fainter: they lie closer together. */
const faintBelow = 10;

/** The layers, from the back to the front: the boxes of namespaces, and the lines from groups, from owners, from other owners, and of the selected node. */
const layers = ["boxes", "groups", "owners", "others", "selected"] as const;
type Layer = (typeof layers)[number];

const alphas: Record<Layer, number> = { boxes: 0.1, groups: 0.16, owners: 0.6, others: 0.45, selected: 0.9 };

/** Lines draws what is behind nodes, on a layer of its own: boxes around namespaces, lines to the nodes above, and dashed ones from other owners. */
export class Lines {
  private readonly program: WebGLProgram;
  private readonly buffers = new Map<Layer, { buffer: WebGLBuffer; vertices: number }>();
  private readonly vertices = new Vertices();

  constructor(private readonly gl: WebGLRenderingContext) {
    this.program = gl.createProgram();
    gl.attachShader(this.program, shader(gl, gl.VERTEX_SHADER, vertexShader));
    gl.attachShader(this.program, shader(gl, gl.FRAGMENT_SHADER, fragmentShader));
    gl.linkProgram(this.program);
    for (const layer of layers) {
      this.buffers.set(layer, { buffer: gl.createBuffer(), vertices: 0 });
    }
  }

  /** update reads all of a picture again, but for the lines of the selected node. */
  update(picture: Picture): void {
    const { vertices } = this;
    this.above(picture, "owners", (kind) => kind === kinds.object);
    this.above(picture, "groups", (kind) => kind !== kinds.object);
    vertices.clear();
    for (const [owner, dependent] of picture.others.values()) {
      vertices.addBetween(picture, picture.slot(owner), picture.slot(dependent), true);
    }
    this.upload("others");
    vertices.clear();
    const boxes = boxesOf(picture);
    for (let i = 0; i < boxes.length; i += 4) {
      const [left, top, right, bottom] = [boxes[i] ?? 0, boxes[i + 1] ?? 0, boxes[i + 2] ?? 0, boxes[i + 3] ?? 0];
      for (const [px, py] of [[left, top], [right, top], [left, bottom], [left, bottom], [right, top], [right, bottom]] as const) {
        vertices.add(px, py, 0);
      }
    }
    this.upload("boxes");
  }

  /** select reads the lines of the selected node: that from the node above, which others may not have, and those of other owners. */
  select(picture: Picture, slot: number): void {
    const { vertices } = this;
    vertices.clear();
    if (picture.shown(slot)) {
      vertices.addBetween(picture, picture.above[slot] ?? -1, slot, false);
      const number = picture.number[slot] ?? 0;
      for (const [owner, dependent] of picture.others.values()) {
        if (owner === number || dependent === number) {
          vertices.addBetween(picture, picture.slot(owner), picture.slot(dependent), true);
        }
      }
    }
    this.upload("selected");
  }

  /** above reads the lines from nodes above of some kinds. */
  private above(picture: Picture, layer: Layer, of: (kind: number) => boolean): void {
    this.vertices.clear();
    for (let slot = 0; slot < picture.slots; slot++) {
      const above = picture.above[slot] ?? -1;
      if (picture.number[slot] !== 0 && above >= 0 && ((picture.look[slot] ?? 0) & lineBit) !== 0 && of(((picture.look[above] ?? 0) >> 8) & 3)) {
        this.vertices.addBetween(picture, above, slot, false);
      }
    }
    this.upload(layer);
  }

  private upload(layer: Layer): void {
    const { gl } = this;
    const its = this.buffers.get(layer);
    if (its !== undefined) {
      gl.bindBuffer(gl.ARRAY_BUFFER, its.buffer);
      gl.bufferData(gl.ARRAY_BUFFER, this.vertices.used, gl.DYNAMIC_DRAW);
      its.vertices = this.vertices.used.length / 3;
    }
  }

  clear(): void {
    this.gl.clear(this.gl.COLOR_BUFFER_BIT);
  }

  /** draw draws all layers, or only the boxes. */
  draw(matrix: Float32Array, unit: number, palette: Palette, onlyBoxes: boolean): void {
    const { gl, program } = this;
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.uniformMatrix3fv(gl.getUniformLocation(program, "u_matrix"), false, matrix);
    gl.uniform1f(gl.getUniformLocation(program, "u_scale"), scale);
    gl.uniform1f(gl.getUniformLocation(program, "u_unit"), unit);
    const position = gl.getAttribLocation(program, "a_position");
    const along = gl.getAttribLocation(program, "a_along");
    gl.enableVertexAttribArray(position);
    gl.enableVertexAttribArray(along);
    for (const layer of onlyBoxes ? layers.slice(0, 1) : layers) {
      const { buffer, vertices } = this.buffers.get(layer) ?? { buffer: null, vertices: 0 };
      const faint = layer === "groups" ? Math.min(1, Math.max(0.35, unit / faintBelow)) : 1;
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.vertexAttribPointer(position, 2, gl.FLOAT, false, 12, 0);
      gl.vertexAttribPointer(along, 1, gl.FLOAT, false, 12, 8);
      gl.uniform4f(gl.getUniformLocation(program, "u_colour"), ...rgb(layer === "selected" ? palette.dim : palette.line), alphas[layer] * faint);
      gl.drawArrays(layer === "boxes" ? gl.TRIANGLES : gl.LINES, 0, vertices);
    }
  }
}
