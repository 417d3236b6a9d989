// Points by WebGL 2: one buffer per map, a uniform mixes the old positions with the new ones.
const VERTEX = `#version 300 es
in vec2 from; in vec2 to; in vec4 colour;
uniform vec2 centre; uniform vec2 scale; uniform float part; uniform float size;
out vec4 tint;
void main() {
  gl_Position = vec4((mix(from, to, part) - centre) * scale, 0.0, 1.0);
  gl_PointSize = size;
  tint = colour;
}`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec4 tint; uniform float size; out vec4 shown;
void main() {
  float edge = 1.0 - length(gl_PointCoord - 0.5) * 2.0;
  float cover = clamp(edge * size * 0.5, 0.0, 1.0) * tint.a;
  if (cover <= 0.0) discard;
  shown = vec4(tint.rgb * cover, cover);
}`;

export class GlPoints {
  constructor(canvas) {
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: false });
    if (!gl) throw new Error("This browser has no WebGL 2.");
    this.gl = gl;
    this.program = this.link();
    this.buffers = { from: gl.createBuffer(), to: gl.createBuffer(), colour: gl.createBuffer() };
    this.count = 0;
  }

  link() {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(`WebGL: ${gl.getProgramInfoLog(program)}`);
    return program;
  }

  fill(name, array) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.DYNAMIC_DRAW);
  }

  // Positions: Uint16Array of pairs, 65535 is 1. Colours: Uint8Array of four each.
  positions(from, to) {
    this.fill("from", from);
    this.fill("to", to);
    this.count = to.length / 2;
  }
  colours(array) { this.fill("colour", array); }

  draw(view, { part, size }) {
    const { gl, program } = this;
    const ratio = devicePixelRatio;
    gl.viewport(0, 0, gl.canvas.width, gl.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.count) return;
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    for (const [name, width, kind] of [["from", 2, gl.UNSIGNED_SHORT], ["to", 2, gl.UNSIGNED_SHORT], ["colour", 4, gl.UNSIGNED_BYTE]]) {
      const where = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      gl.enableVertexAttribArray(where);
      gl.vertexAttribPointer(where, width, kind, true, 0, 0);
    }
    const set = (name, ...values) => gl[`uniform${values.length}f`](gl.getUniformLocation(program, name), ...values);
    set("centre", view.x, view.y);
    set("scale", (2 * view.scale) / view.width, (2 * view.scale) / view.height);
    set("part", part);
    set("size", size * ratio);
    gl.drawArrays(gl.POINTS, 0, this.count);
  }

  free() { this.gl.getExtension("WEBGL_lose_context")?.loseContext(); }
}
