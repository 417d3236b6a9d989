// Lists of queries to look through: at random, the worst, of a class, where methods disagree, by typing.
export function chosenMethods(test, text) {
  const found = text.split(".").filter(Boolean).map(Number).filter((m) => test.methods[m]);
  return found.length ? found.slice(0, 4) : test.methods.slice(0, Math.min(3, test.methods.length)).map(({ index }) => index);
}

function asked(test, method) {
  const all = method.queries ?? Uint32Array.from({ length: test.count }, (_, i) => i);
  return Array.from(all).filter((i) => method.asks(i));
}

function shuffled(list) {
  let seed = 12345; // a fixed order: the address names only the query
  const random = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
  return list;
}

const byKey = (list, key) => list.map((i) => [key(i), i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(([, i]) => i);

export function playlist(test, chosen, { by, c, find }) {
  const methods = chosen.map((m) => test.methods[m]);
  const list = asked(test, methods[0]);
  if (by === "worst") return byKey(list.filter((i) => methods[0].firstRight[i] > 0), (i) => methods[0].firstRight[i]);
  if (by === "disagree") {
    const ranks = (methods.length > 1 ? methods : test.methods).map((method) => method.firstRight);
    const spread = (i) => { const found = ranks.map((rank) => Math.log(rank[i] || 1)); return Math.max(...found) - Math.min(...found); };
    return byKey(list, spread);
  }
  if (by === "class") return c < 0 ? list : list.filter((i) => test.classOf[i] === c);
  if (by === "find" && find) {
    const text = find.toLowerCase();
    const hits = test.classes.map((name) => name.toLowerCase().includes(text));
    return list.filter((i) => hits[test.classOf[i]] || test.file(i).toLowerCase().includes(text));
  }
  return shuffled(list);
}
