// Compiles the dashboard and the script of reports into the crates that embed them. `node build.mjs --check` writes nothing, and says
// whether what is there is what would be written.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const made = await build({
  absWorkingDir: here,
  entryPoints: { "fwdlab-serve/assets/app": "src/main.tsx", "fwdlab-report/src/html/report": "src/report.ts" },
  outdir: join(here, "../crates"),
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
});
let stale = false;
for (const file of made.outputFiles) {
  if (process.argv.includes("--check")) {
    const kept = readFileSync(file.path, "utf8");
    if (kept !== file.text) {
      stale = true;
      console.error(`${file.path} is not what web/src says: npm --prefix web run build`);
    }
  } else {
    writeFileSync(file.path, file.text);
    console.log(`${file.path} ${(file.text.length / 1024).toFixed(1)} KiB`);
  }
}
process.exit(stale ? 1 : 0);
