// Which part of the unit square is on the screen; y points up.
export class View {
  constructor() { Object.assign(this, { x: 0.5, y: 0.5, scale: 1, width: 1, height: 1, zoom: 1 }); }

  resize(width, height) {
    Object.assign(this, { width, height });
    this.clamp();
  }
  reset() {
    Object.assign(this, { x: 0.5, y: 0.5, zoom: 1 });
    this.clamp();
  }
  clamp() {
    this.zoom = Math.max(0.8, Math.min(80, this.zoom));
    this.scale = Math.min(this.width, this.height) * 0.94 * this.zoom;
    this.x = Math.max(0, Math.min(1, this.x));
    this.y = Math.max(0, Math.min(1, this.y));
  }
  screen(x, y) { return [(x - this.x) * this.scale + this.width / 2, this.height / 2 - (y - this.y) * this.scale]; }
  world(left, top) { return [(left - this.width / 2) / this.scale + this.x, (this.height / 2 - top) / this.scale + this.y]; }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y += dy / this.scale;
    this.clamp();
  }
  // The point under (left, top) stays there.
  zoomAt(factor, left, top) {
    const [x, y] = this.world(left, top);
    this.zoom *= factor;
    this.clamp();
    const [after, above] = this.world(left, top);
    this.x += x - after;
    this.y += y - above;
    this.clamp();
  }
}
