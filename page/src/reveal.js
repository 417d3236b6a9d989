// Bring a section onto the screen and move the keyboard's focus there.
import { still } from "./theme.js";

export function reveal(id) {
  const section = document.getElementById(id);
  if (!section) return;
  section.focus({ preventScroll: true });
  section.scrollIntoView({ behavior: still() ? "auto" : "smooth", block: "start" });
}
