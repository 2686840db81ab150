import type Sigma from "sigma";
import { NodeProgram, type ProgramInfo } from "sigma/rendering";
import type { NodeDisplayData, RenderParams } from "sigma/types";
import { rgb, type Palette } from "./palette.ts";
import { pointsBelow, scale } from "./view.ts";

/** NodeLook is what a node of the graph has, apart from its position. */
export interface NodeLook {
  x: number;
  y: number;
  size: number;
  look: number;
  hidden: boolean;
}

// A look fits in the 24 bits that a float has exactly. See radiusOf for the radius.
const vertexShader = `
attribute vec2 a_position;
attribute float a_look;
attribute float a_size;
uniform mat3 u_matrix;
uniform float u_unit;
uniform float u_ratio;
uniform vec3 u_colours[8];
varying vec3 v_colour;
varying vec3 v_ring;
varying float v_shape;
varying float v_radius;
varying float v_extent;
varying float v_closed;

vec3 colourOf(float state) {
  vec3 colour = u_colours[0];
  for (int i = 1; i < 8; i++) {
    if (state > float(i) - 0.5) {
      colour = u_colours[i];
    }
  }
  return colour;
}

void main() {
  if (a_size == 0.0) {
    gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
    gl_PointSize = 0.0;
    return;
  }
  float state = mod(a_look, 16.0);
  float hidden = mod(floor(a_look / 16.0), 16.0);
  float kind = mod(floor(a_look / 256.0), 4.0);
  float closed = mod(floor(a_look / 1024.0), 2.0);
  bool point = u_unit < ${pointsBelow}.0;
  // A point has no ring that could say what it hides: it looks as that does.
  if (point && closed > 0.5 && kind < 0.5) {
    state = max(state, hidden);
  }
  v_closed = point ? 0.0 : closed * (hidden > 0.5 ? 2.0 : 1.0);
  v_shape = kind > 2.5 ? 7.0 : kind > 0.5 ? 6.0 : state;
  v_colour = colourOf(kind < 0.5 ? state : (closed > 0.5 || kind > 2.5) && hidden > 0.5 ? hidden : 6.0);
  v_ring = colourOf(hidden > 0.5 ? hidden : 7.0);
  float least = state > 1.5 || kind > 0.5 ? 2.0 : 1.1;
  v_radius = clamp(u_unit * 0.3, least, 5.5) * (1.0 + (a_size - 1.0) * min(1.0, u_unit / ${pointsBelow}.0)) * u_ratio;
  v_extent = v_radius < 1.5 * u_ratio ? v_radius : v_radius * (v_closed > 0.5 ? 2.0 : 1.5) + u_ratio;
  gl_PointSize = 2.0 * v_extent;
  // What is more severe is nearer, and is seen where nodes overlap.
  float severity = max(state, closed > 0.5 || kind > 2.5 ? hidden : 0.0) + (kind > 0.5 ? 0.5 : 0.0);
  gl_Position = vec4((u_matrix * vec3(a_position, 1.0)).xy, 0.5 - severity * 0.1, 1.0);
}
`;

const fragmentShader = `
precision highp float;
uniform float u_ratio;
varying vec3 v_colour;
varying vec3 v_ring;
varying float v_shape;
varying float v_radius;
varying float v_extent;
varying float v_closed;

// The distance to the edge of a shape, which is negative inside.
float shape(vec2 q, float r) {
  float thick = max(r * 0.24, 0.7 * u_ratio);
  vec2 a = abs(q);
  if (v_shape < 0.5) return length(q) - r;
  if (v_shape < 1.5) return max(a.x, a.y) - r * 0.9;
  if (v_shape < 2.5) return max(a.x * 0.866 + q.y * 0.5, -q.y) - r * 0.62;
  if (v_shape < 3.5) return abs(length(q) - r * 0.85) - thick;
  if (v_shape < 4.5) return abs((a.x + a.y - r * 1.2) * 0.707) - thick;
  if (v_shape < 5.5) {
    float diamond = (a.x + a.y - r * 1.5) * 0.707;
    float bar = max(a.x - r * 0.7, a.y - r * 0.2);
    return r > 3.0 * u_ratio ? max(diamond, -bar) : diamond;
  }
  if (v_shape < 6.5) return abs(max(a.x, a.y) - r * 0.85) - thick;
  return min(length(q), min(length(q - vec2(r, 0.0)), length(q + vec2(r, 0.0)))) - r * 0.33;
}

void main() {
  if (v_radius < 1.5 * u_ratio) {
    // Too small for a shape.
    gl_FragColor = vec4(v_colour, 1.0);
    return;
  }
  vec2 q = (gl_PointCoord - 0.5) * 2.0 * v_extent;
  float inside = clamp(0.5 - shape(q, v_radius), 0.0, 1.0);
  float ring = 0.0;
  if (v_closed > 0.5) {
    float thick = (v_closed > 1.5 ? 1.1 : 0.65) * u_ratio;
    ring = clamp(0.5 + thick - abs(length(q) - v_radius * 1.75), 0.0, 1.0);
  }
  float alpha = max(inside, ring);
  if (alpha < 0.05) discard;
  gl_FragColor = vec4(mix(v_ring, v_colour, inside / alpha) * alpha, alpha);
}
`;

const uniforms = ["u_matrix", "u_unit", "u_ratio", "u_colours"] as const;
type Uniform = (typeof uniforms)[number];

/**
 * shapes returns a program for sigma that draws a node as a point with the shape and the colour of its state. It draws nothing for
 * picking: Canvas finds the node at a position by the grid, which costs nothing while the camera moves.
 */
export function shapes(palette: { current: Palette }) {
  return class Shapes extends NodeProgram<Uniform> {
    constructor(gl: WebGLRenderingContext, _picking: WebGLFramebuffer | null, renderer: Sigma) {
      super(gl, null, renderer);
    }

    getDefinition() {
      const { FLOAT, POINTS } = WebGLRenderingContext;
      return {
        VERTICES: 1,
        VERTEX_SHADER_SOURCE: vertexShader,
        FRAGMENT_SHADER_SOURCE: fragmentShader,
        METHOD: POINTS,
        UNIFORMS: uniforms,
        ATTRIBUTES: [
          { name: "a_position", size: 2, type: FLOAT },
          { name: "a_look", size: 1, type: FLOAT },
          { name: "a_size", size: 1, type: FLOAT },
        ],
      };
    }

    processVisibleItem(_: number, at: number, data: NodeDisplayData): void {
      const { array } = this;
      array[at] = data.x;
      array[at + 1] = data.y;
      array[at + 2] = (data as NodeDisplayData & NodeLook).look & 0x7ff;
      array[at + 3] = data.size;
    }

    setUniforms({ matrix, width, pixelRatio }: RenderParams, { gl, uniformLocations }: ProgramInfo<Uniform>): void {
      gl.uniformMatrix3fv(uniformLocations.u_matrix, false, matrix);
      gl.uniform1f(uniformLocations.u_unit, ((matrix[0] ?? 0) * width) / 2 / scale);
      gl.uniform1f(uniformLocations.u_ratio, pixelRatio);
      gl.uniform3fv(uniformLocations.u_colours, palette.current.states.flatMap(rgb));
    }

    override drawWebGL(method: number, info: ProgramInfo): void {
      const { gl } = info;
      gl.enable(gl.DEPTH_TEST);
      gl.depthFunc(gl.LEQUAL);
      gl.clear(gl.DEPTH_BUFFER_BIT);
      super.drawWebGL(method, info);
      gl.disable(gl.DEPTH_TEST);
    }
  };
}
