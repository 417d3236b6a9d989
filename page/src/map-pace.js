// While a large map moves on a machine that draws slowly, every second, fourth, ... point is drawn; all of them at rest.
const MANY = 20000;
const SLOW = 60; // milliseconds from asking for a frame to drawing it
const QUICK = 24;
const REST = 180;

export class Pace {
  constructor(rest) { Object.assign(this, { rest, every: 1, resting: false, timer: 0 }); }

  // Draw every how many-th of `count` points, given how long the frame had to wait.
  frame(count, waited) {
    if (count < MANY || this.resting) {
      this.resting = false;
      return 1;
    }
    if (waited > SLOW) this.every = Math.min(16, this.every * 2);
    else if (waited < QUICK) this.every = Math.max(1, this.every / 2);
    clearTimeout(this.timer);
    if (this.every > 1) this.timer = setTimeout(() => { this.resting = true; this.rest(); }, REST);
    return this.every;
  }

  free() { clearTimeout(this.timer); }
}
