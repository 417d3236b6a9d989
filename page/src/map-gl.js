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
    this.uniforms = {};
    for (const name of ["centre", "scale", "part", "size"]) this.uniforms[name] = gl.getUniformLocation(this.program, name);
    this.connect();
  }

  // What stays the same in every frame.
  connect() {
    const { gl, program } = this;
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.clearColor(0, 0, 0, 0);
    this.places = Object.keys(this.buffers).map((name) => [name, gl.getAttribLocation(program, name)]);
    for (const [, where] of this.places) gl.enableVertexAttribArray(where);
  }

  // Every `step`-th point of the buffers.
  point(step) {
    const { gl } = this;
    for (const [name, where] of this.places) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      if (name === "colour") gl.vertexAttribPointer(where, 4, gl.UNSIGNED_BYTE, true, 4 * step, 0);
      else gl.vertexAttribPointer(where, 2, gl.UNSIGNED_SHORT, true, 4 * step, 0);
    }
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

  draw(view, { part, size, every }) {
    const { gl, uniforms } = this;
    gl.viewport(0, 0, gl.canvas.width, gl.canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.centre, view.x, view.y);
    gl.uniform2f(uniforms.scale, (2 * view.scale) / view.width, (2 * view.scale) / view.height);
    gl.uniform1f(uniforms.part, part);
    gl.uniform1f(uniforms.size, size * devicePixelRatio);
    this.point(every);
    gl.drawArrays(gl.POINTS, 0, Math.ceil(this.count / every));
  }

  free() { this.gl.getExtension("WEBGL_lose_context")?.loseContext(); }
}
