// Colours of methods (those of the PNG figures: Okabe and Ito), of classes and of right and wrong.
const METHODS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#8c564b", "#7b61c9", "#5f7d00"];
const ON_DARK = ["#4aa3df", "#ff8a3d", "#2fc79a", "#e39cc4", "#f2b632", "#7cc8f2", "#e8e8e8", "#c08d80", "#a893f0", "#9dbb3c"];
const GREY = ["#8a8a8a", "#9a9a9a"];

export const dark = () => document.documentElement.dataset.theme === "dark";
export const ofMethod = (row) =>
  row.colour < 0 ? GREY[+dark()] : (dark() ? ON_DARK : METHODS)[row.colour % METHODS.length];
export const RIGHT = [0, 158, 115];
export const WRONG = [222, 84, 30];
export const NEITHER = [140, 140, 140];

// Ten named colours where they suffice; otherwise the golden angle keeps consecutive numbers apart.
export function ofNumber(number, many) {
  if (many <= 10) return rgb((dark() ? ON_DARK : METHODS)[number]);
  const hue = (number * 137.508) % 360;
  const level = number % 3;
  return hsl(hue, 0.62 - 0.1 * level, (dark() ? 0.6 : 0.42) + 0.07 * level);
}

export function rgb(hex) {
  const whole = Number.parseInt(hex.slice(1), 16);
  return [whole >> 16, (whole >> 8) & 255, whole & 255];
}

function hsl(hue, saturation, lightness) {
  const width = saturation * Math.min(lightness, 1 - lightness);
  return [0, 8, 4].map((offset) => {
    const place = (offset + hue / 30) % 12;
    return Math.round(255 * (lightness - width * Math.max(-1, Math.min(place - 3, 9 - place, 1))));
  });
}

export const css = ([red, green, blue], alpha = 1) => `rgb(${red} ${green} ${blue} / ${alpha})`;
