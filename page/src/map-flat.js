// Points without WebGL: squares on a plain canvas, with the same methods as GlPoints.
export class FlatPoints {
  constructor(canvas) {
    this.context = canvas.getContext("2d");
    this.from = this.to = new Uint16Array();
    this.tints = new Uint8Array();
  }
  positions(from, to) { Object.assign(this, { from, to }); }
  colours(array) { this.tints = array; }

  draw(view, { part, size, every }) {
    const { context, from, to, tints } = this;
    const ratio = devicePixelRatio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    for (let i = 0; i < to.length / 2; i += every) {
      const x = (from[2 * i] + (to[2 * i] - from[2 * i]) * part) / 65535;
      const y = (from[2 * i + 1] + (to[2 * i + 1] - from[2 * i + 1]) * part) / 65535;
      const [left, top] = view.screen(x, y);
      if (left < -9 || top < -9 || left > view.width + 9 || top > view.height + 9) continue;
      context.fillStyle = `rgb(${tints[4 * i]} ${tints[4 * i + 1]} ${tints[4 * i + 2]} / ${tints[4 * i + 3] / 255})`;
      context.fillRect(left - size / 2, top - size / 2, size, size);
    }
  }
  free() {}
}
