// Writes src/levelfield/reports/page/assets: one script, one style, the skeleton and the licences of what is inside.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "../src/levelfield/reports/page/assets");
const vendored = ["preact", "htm"];

// tests/page/test_built.py computes the same hash: built files that are older than their sources are found.
function hashOfSources() {
  const files = ["build.mjs", "package-lock.json", ...readdirSync(join(here, "src")).map((name) => `src/${name}`)].sort();
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file}\n`).update(readFileSync(join(here, file))).update("\n");
  return hash.digest("hex");
}

function bundle(entry, banner) {
  return build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    format: "iife",
    minify: true,
    charset: "ascii",
    legalComments: "none",
    target: ["chrome100", "firefox100", "safari15.4"],
    banner,
    write: false,
  }).then((result) => result.outputFiles[0].text);
}

function licences() {
  const parts = vendored.map((name) => {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (https://www.npmjs.com/package/${name})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
  });
  return ["page.js contains these packages, minified.\n", ...parts].join(`\n${"-".repeat(80)}\n\n`);
}

const line = `levelfield page; sources ${hashOfSources()}`;
const script = await bundle("main.js", { js: `/* ${line}; contains preact and htm, see LICENSES.txt */` });
const style = await bundle("page.css", { css: `/* ${line} */` });
for (const text of [script, style])
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error("The built file would end its own element in the page.");
mkdirSync(assets, { recursive: true });
writeFileSync(join(assets, "page.js"), script);
writeFileSync(join(assets, "page.css"), style);
writeFileSync(join(assets, "page.html"), readFileSync(join(here, "src/page.html"), "utf8"));
writeFileSync(join(assets, "LICENSES.txt"), licences());
console.log(`page.js ${(script.length / 1024).toFixed(0)} KB, page.css ${(style.length / 1024).toFixed(0)} KB`);
