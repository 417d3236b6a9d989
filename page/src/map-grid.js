// An index of points by square cells, for picking and for thumbnails.
export class Grid {
  constructor(positions) {
    const count = positions.length / 2;
    this.positions = positions;
    this.side = Math.max(1, Math.min(512, Math.ceil(Math.sqrt(count / 4))));
    this.starts = new Uint32Array(this.side * this.side + 1);
    this.order = new Uint32Array(count);
    const cells = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      cells[i] = this.cell(positions[2 * i] / 65535) + this.side * this.cell(positions[2 * i + 1] / 65535);
      this.starts[cells[i] + 1]++;
    }
    for (let c = 0; c < this.side * this.side; c++) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice();
    for (let i = 0; i < count; i++) this.order[next[cells[i]]++] = i;
  }

  cell(x) { return Math.max(0, Math.min(this.side - 1, Math.floor(x * this.side))); }

  // Calls visit(i, x, y) for the points of a rectangle, at most a cell's width outside it too.
  each(left, bottom, right, top, visit) {
    for (let row = this.cell(bottom); row <= this.cell(top); row++)
      for (let column = this.cell(left); column <= this.cell(right); column++) {
        const cell = column + this.side * row;
        for (let at = this.starts[cell]; at < this.starts[cell + 1]; at++) {
          const i = this.order[at];
          visit(i, this.positions[2 * i] / 65535, this.positions[2 * i + 1] / 65535);
        }
      }
  }

  // The nearest point within a radius, -1: none.
  nearest(x, y, radius) {
    let [best, least] = [-1, radius * radius];
    this.each(x - radius, y - radius, x + radius, y + radius, (i, px, py) => {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance <= least) [best, least] = [i, distance];
    });
    return best;
  }

  // Points inside a loop of [x, y] pairs (even-odd rule).
  inside(loop) {
    const xs = loop.map(([x]) => x);
    const ys = loop.map(([, y]) => y);
    const found = [];
    this.each(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (i, x, y) => {
      let odd = false;
      for (let a = 0, b = loop.length - 1; a < loop.length; b = a++)
        if (ys[a] > y !== ys[b] > y && x < ((xs[b] - xs[a]) * (y - ys[a])) / (ys[b] - ys[a]) + xs[a]) odd = !odd;
      if (odd) found.push(i);
    });
    return found.sort((a, b) => a - b);
  }
}
