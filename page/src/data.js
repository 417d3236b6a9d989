// The data of the page. Rows and tables are plain; test sets and their methods decode their arrays lazily.
import { blobOf, decode } from "./arrays.js";

const element = document.getElementById("page-data");
export const page = JSON.parse(element.textContent);
element.remove(); // its text is as large as the whole page

class Embedded {
  constructor(raw, index, test) {
    this.raw = raw;
    this.index = index;
    this.test = test;
    this.row = page.rows[raw.row] ?? { label: `method ${index + 1}`, colour: index };
    this.k = raw.k;
    this.threshold = raw.threshold;
    this.takenFor = raw.classes.taken_for;
  }
  get label() { return this.row.label; }
  get firstRight() { return decode(this.raw.first_right); }
  get right() { return decode(this.raw.right); }
  get foundBy() { return decode(this.raw.found_by); }
  get recall() { return decode(this.raw.classes.recall); }
  get map() { return decode(this.raw.map); }
  get queries() { return decode(this.raw.queries); }

  // Whether image i is a query that was searched: 2 is no query, 3 was not searched.
  asks(i) { return this.right[i] < 2; }

  // Where the list of image i is among the stored lists, -1: nowhere.
  place(i) {
    if (!this.raw.queries) return i < this.raw.neighbours.shape[0] ? i : -1;
    if (!this.places) {
      this.places = new Int32Array(this.test.count).fill(-1);
      this.queries.forEach((image, place) => (this.places[image] = place));
    }
    return this.places[i];
  }

  similarity(flat) {
    const value = decode(this.raw.similarity)[flat];
    return this.raw.similarity.dtype === "u2" ? (value / 65535) * 2 - 1 : value;
  }

  // The stored neighbours of image i, nearest first, or null.
  neighbours(i) {
    const place = this.place(i);
    if (place < 0 || !this.asks(i)) return null;
    const all = decode(this.raw.neighbours);
    const found = [];
    for (let flat = place * this.k; flat < (place + 1) * this.k; flat++) {
      if (all[flat] < this.test.count) found.push({ image: all[flat], similarity: this.similarity(flat) });
    }
    return found;
  }
}

class TestSet {
  constructor(raw, index) {
    Object.assign(this, { raw, index, name: raw.name, count: raw.count, classes: raw.classes, notes: raw.notes });
    this.groups = raw.groups;
    this.mistakes = raw.mistakes;
    this.why = raw.why;
    this.lost = new Set(raw.lost);
    this.methods = raw.methods.map((one, number) => new Embedded(one, number, this));
    this.sheets = [];
  }
  get classOf() { return decode(this.raw.class_of); }
  get groupOf() { return decode(this.raw.group_of); }
  get galleryOf() { return decode(this.raw.gallery); }
  className(i) { return this.classes[this.classOf[i]]; }
  file(i) { return this.raw.files[i] || ""; }

  // Images of each class, in order.
  get members() {
    if (!this.lists) {
      this.lists = this.classes.map(() => []);
      this.classOf.forEach((number, image) => this.lists[number].push(image));
    }
    return this.lists;
  }

  // The cell of image i on the sheets, -1: it has no thumbnail.
  cell(i) {
    const { thumbnails } = this.raw;
    if (!thumbnails || this.lost.has(i)) return -1;
    if (!thumbnails.of) return i;
    if (!this.cells) {
      this.cells = new Int32Array(this.count).fill(-1);
      decode(thumbnails.of).forEach((image, cell) => (this.cells[image] = cell));
    }
    return this.cells[i];
  }

  sheet(number) {
    return (this.sheets[number] ??= blobOf(this.raw.thumbnails.sheets[number]));
  }
}

const sets = [];
export const testSet = (index) => (page.tests[index] ? (sets[index] ??= new TestSet(page.tests[index], index)) : null);
