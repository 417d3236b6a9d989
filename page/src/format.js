// Numbers as text.
export const value = (number, digits = 3) => (number == null || Number.isNaN(number) ? "–" : number.toFixed(digits).replace("-", "−"));
export const signed = (number, digits = 3) => (number > 0 ? "+" : "") + value(number, digits);
export const count = (number) => number.toLocaleString("en-US");
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function percent(part, digits = 1) {
  const hundred = part * 100;
  if (hundred > 0 && hundred < 10 ** -digits) return `<${10 ** -digits} %`;
  return `${hundred.toFixed(digits)} %`;
}

export function seconds(number) {
  if (number == null) return "–";
  if (number < 100) return `${number.toFixed(number < 10 ? 1 : 0)} s`;
  return number < 6000 ? `${(number / 60).toFixed(0)} min` : `${(number / 3600).toFixed(1)} h`;
}

export function bytes(number) {
  if (number == null) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, number)) / 3));
  return `${(number / 1000 ** power).toFixed(power > 2 ? 1 : 0)} ${units[power]}`;
}

export function short(number) {
  if (number == null) return "–";
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  return number >= 1e4 ? `${(number / 1e3).toFixed(0)} k` : count(number);
}
