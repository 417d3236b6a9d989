// The map on its two canvases: points below, images and the lasso above. Draws when something changed, not otherwise.
import { FlatPoints } from "./map-flat.js";
import { gestures } from "./map-gestures.js";
import { GlPoints } from "./map-gl.js";
import { Grid } from "./map-grid.js";
import { drawOverlay } from "./map-overlay.js";
import { Pace } from "./map-pace.js";
import { tintOf, tints } from "./map-tints.js";
import { View } from "./map-view.js";
import { still } from "./theme.js";

const MOVING = 700; // milliseconds from one method's map to the next
const ease = (part) => (part < 0.5 ? 4 * part ** 3 : 1 - (2 - 2 * part) ** 3 / 2);

export class Scene {
  constructor(below, above, listener) {
    Object.assign(this, { below, above, listener, view: new View(), hovered: -1, loop: null, frame: 0, began: 0, part: 1 });
    this.context = above.getContext("2d");
    this.pace = new Pace(() => this.changed());
    try {
      this.points = new GlPoints(below);
    } catch (error) {
      this.below = below.cloneNode(); // a canvas keeps its first kind of context
      below.replaceWith(this.below);
      this.points = new FlatPoints(this.below);
      this.flat = error.message;
    }
    this.stop = gestures(above, this);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(above);
    this.lassoing = () => listener.lassoing();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.above;
    for (const canvas of [this.below, this.above]) {
      canvas.width = Math.round(width * devicePixelRatio);
      canvas.height = Math.round(height * devicePixelRatio);
    }
    this.view.resize(width, height);
    this.changed();
  }

  // Positions of another method: the points move there.
  move(test, method) {
    const to = method.map;
    const from = this.test === test && this.to ? this.between() : to;
    Object.assign(this, { test, from, to, grid: new Grid(to), began: from === to || still() ? 0 : performance.now() });
    this.part = this.began ? 0 : 1;
    this.points.positions(from, to);
    this.changed();
  }

  // Where the points are now: at the end of the last move, or within it.
  between() {
    if (this.part >= 1) return this.to;
    const part = ease(this.part);
    return this.to.map((value, i) => this.from[i] + (value - this.from[i]) * part);
  }

  paint(method, by, kept) {
    this.kept = kept;
    this.tint = tintOf(this.test, method, by);
    this.points.colours(tints(this.test, this.tint, kept));
    this.changed();
  }

  zoom(factor) {
    this.view.zoomAt(factor, this.view.width / 2, this.view.height / 2);
    this.changed();
  }
  reset() {
    this.view.reset();
    this.changed();
  }

  changed() {
    if (this.frame) return;
    this.asked = performance.now();
    this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  draw(now) {
    this.frame = 0;
    if (!this.to || !this.tint) return;
    if (this.began) this.part = Math.max(0, Math.min(1, (now - this.began) / MOVING));
    if (this.part >= 1) this.began = 0;
    const { view, test } = this;
    const room = Math.max(0.6, Math.min(1, Math.min(view.width, view.height) / 640)); // less on a phone
    const size = Math.min(14, Math.max(2, Math.min(9, 330 / Math.sqrt(test.count))) * Math.sqrt(view.zoom) * room);
    const every = this.pace.frame(test.count, performance.now() - this.asked);
    this.points.draw(view, { part: ease(this.part), size, every });
    if (this.part < 1) {
      this.context.setTransform(1, 0, 0, 1, 0, 0);
      this.context.clearRect(0, 0, this.above.width, this.above.height);
      this.changed();
    } else {
      const mark = getComputedStyle(this.above).color;
      drawOverlay(this.context, { test, view, grid: this.grid, kept: this.kept, tint: this.tint, hover: this.hovered, loop: this.loop, mark, ready: () => this.changed() });
    }
  }

  pick(left, top, reach) { return left < 0 || !this.grid ? -1 : this.grid.nearest(...this.view.world(left, top), reach / this.view.scale); }

  hover(left, top, kind) {
    const found = this.pick(left, top, 12);
    if (kind !== "touch" && found !== this.hovered) this.show(found, left, top);
  }
  tap(left, top) { this.show(this.pick(left, top, 24), left, top); }
  show(i, left, top) {
    this.hovered = i;
    this.listener.hover(i, left, top);
    this.changed();
  }

  lasso(loop, done) {
    this.loop = done ? null : loop;
    if (done) this.listener.chosen(this.grid.inside(loop.map(([left, top]) => this.view.world(left, top))));
    this.changed();
  }

  free() {
    cancelAnimationFrame(this.frame);
    this.stop();
    this.watch.disconnect();
    this.pace.free();
    this.points.free();
  }
}
