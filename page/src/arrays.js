// Binary arrays of the data: {dtype, shape, base64}, little endian, decoded when first asked for.
const KINDS = { u1: Uint8Array, i1: Int8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array };
const decoded = new WeakMap();

export function bytes(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

export function decode(array) {
  if (!array) return null;
  if (!decoded.has(array)) {
    const Kind = KINDS[array.dtype];
    if (!Kind) throw new Error(`The page's data has an array of type '${array.dtype}', which this page cannot read.`);
    decoded.set(array, new Kind(bytes(array.base64).buffer));
    array.base64 = ""; // the text is larger than the array: let it go
  }
  return decoded.get(array);
}

export function blobOf(uri) {
  const comma = uri.indexOf(",");
  return new Blob([bytes(uri.slice(comma + 1))], { type: uri.slice(5, uri.indexOf(";")) });
}
