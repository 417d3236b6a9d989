// Neighbours of an image: stored in the page, or asked of the server.
import { useEffect, useState } from "./html.js";
import { page } from "./data.js";

const kept = new Map();

async function answer(response) {
  const found = await response.json();
  if (!response.ok) throw new Error(found.error ?? `The server answered ${response.status}.`);
  return found;
}

export const zipped = ({ neighbours, similarity, same }) =>
  neighbours.map((image, i) => ({ image, similarity: similarity[i], same: same ? same[i] : null }));

async function fetched(test, method, i) {
  const key = `${test.index}/${method.index}/${i}`;
  if (!kept.has(key)) kept.set(key, zipped(await answer(await fetch(`/${page.live.token}/neighbours/${key}?k=50`))));
  return kept.get(key);
}

export async function searched(test, method, file) {
  const found = await answer(await fetch(`/${page.live.token}/search/${test.index}/${method.index}`, { method: "POST", body: file }));
  return { list: zipped(found), threshold: found.threshold };
}

// {list} or {reason}: why there is none.
export function useNeighbours(test, method, i) {
  const stored = i >= 0 ? method.neighbours(i) : null;
  const [live, setLive] = useState({});
  const key = `${method.index}/${i}`;
  useEffect(() => {
    if (stored || !page.live || i < 0) return undefined;
    let current = true;
    const put = (more) => current && setLive({ key, ...more });
    fetched(test, method, i).then((list) => put({ list }), (error) => put({ reason: error.message }));
    return () => (current = false);
  }, [key]);
  if (stored) return { list: stored };
  if (page.live) return live.key === key ? live : { reason: "Asking the server …" };
  if (method.right[i] === 2) return { reason: "This image is not a query of the test." };
  return { reason: "This page has no neighbours of this image, only those of chosen queries. `levelfield view` shows any." };
}
