// Looks at the dashboard in a real browser: node pages.mjs CHROMIUM ADDRESS TOKEN live|- STORED-RUN... What it needs done, to the server or by
// a run, it says on its standard output, and is told on its standard input when it is done. It ends with 0, or with what is wrong.
import AxeBuilder from "@axe-core/playwright";
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [program, at, token, live, ...stored] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async (what) => {
  console.log(what);
  return (await answers.next()).value;
};

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
const wrong = [];
const open = async (options) => {
  const page = await (await browser.newContext(options)).newPage();
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (said) => {
    // a server that is away is told by the browser too
    if (said.type() === "error" && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|status of 503/.test(said.text())) wrong.push(said.text());
  });
  page.on("dialog", (dialog) => wrong.push(`a dialog: ${dialog.message()}`));
  // a page waits ten times as long as the server needed for its report, and both may have to wait for a CPU
  page.setDefaultTimeout(200000);
  return page;
};
const shown = (page) => page.locator("main h1").innerText();

// every page, light and dark, wide and narrow: readable by what reads pages aloud, and never wider than the window
const ndrs = stored.filter((run) => run.includes("-ndr-")).map((run) => `run=${encodeURIComponent(run)}`).join("&");
// the report of a run is a file of its own
const report = `file://${process.env.REPORT}`;
const pages = ["/", `/runs/${stored[0]}`, `/runs/${stored.at(-1)}`, `/compare?${ndrs}`, `/compare?run=${stored[2]}`, "/trend?of=ndr", "/beds", `/flame?run=${stored[0]}`];
for (const [colorScheme, width] of [["light", 1280], ["dark", 400]]) {
  const page = await open({ colorScheme, viewport: { width, height: 800 } });
  for (const path of [...pages, report]) {
    await page.goto(path === report ? report : at + path);
    await page.locator("main h1").first().waitFor();
    await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
    assert.equal(await page.locator(".error").count(), 0, `${path}: ${await page.locator("main").innerText()}`);
    // charts of the report are pictures that the server draws
    await page.evaluate(() => Promise.all([...document.images].map((image) => ((image.loading = "eager"), image.decode()))));
    // what it preloads are style sheets as text, which the policy of the page forbids
    const { violations } = await new AxeBuilder({ page }).options({ preload: false }).analyze();
    assert.deepEqual(violations.map((v) => `${path} ${colorScheme}: ${v.id} ${v.nodes[0].html}`), []);
    const wider = await page.evaluate(() => {
      const all = document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")];
      return all.filter((one) => one.getBoundingClientRect().right > innerWidth).slice(0, 3).map((one) => one.outerHTML.slice(0, 200));
    });
    assert.deepEqual(wider, [], `${path} is wider than ${width}`);
    // a picture that is scaled down keeps its words readable
    const small = await page.evaluate(() => {
      const roots = [document, ...[...document.querySelectorAll("*")].flatMap((one) => one.shadowRoot ?? [])];
      const words = roots.flatMap((root) => [...root.querySelectorAll("svg text")]).filter((one) => one.getBoundingClientRect().height > 0);
      const pixels = (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().d;
      return words.filter((one) => pixels(one) < 11).map((one) => `${one.textContent}: ${pixels(one)} px`).slice(0, 3);
    });
    assert.deepEqual(small, [], `${path} at ${width}`);
  }
  await page.context().close();
}

// the rows of a long table, in the file and in the dashboard
for (const path of [report, `${at}/runs/${stored[2]}`]) {
  const page = await open({});
  await page.goto(path);
  const pages = page.locator(".pages");
  const folded = page.locator("details", { has: pages });
  await folded.locator("summary").click();
  const first = (text) => folded.locator("tbody tr:first-child td:first-child", { hasText: new RegExp(`^${text}$`) }).waitFor();
  await first(1);
  await pages.getByRole("button", { name: "Next" }).click();
  await first(501);
  assert.ok(await pages.getByRole("button", { name: "Next" }).isDisabled());
  await pages.getByRole("spinbutton", { name: "Page" }).fill("0");
  await page.keyboard.press("Enter");
  await first(1);
  await page.context().close();
}

// the test cases of one run, next to each other by the label in which they differ
const cases = await open({});
await cases.goto(`${at}/compare?run=${stored[2]}`);
assert.equal(await cases.getByLabel("Columns").inputValue(), "flows");
assert.match(await shown(cases), /difference/i);
await cases.context().close();

// by keyboard alone: the filter, the list, a run and back; what is shown is in the address
const page = await open({});
await page.goto(at);
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
await page.keyboard.press("t");
await page.waitForURL("**/trend");
await page.keyboard.press("r");
await page.waitForURL("**/runs");
await page.waitForSelector("#filter");
await page.keyboard.press("/");
await page.keyboard.type("kind:ndr");
await page.waitForURL("**/runs?q=kind%3Andr");
const ndr = stored.filter((run) => run.includes("-ndr-"));
await page.waitForFunction((n) => document.querySelectorAll("tbody tr").length === n, ndr.length);
await page.keyboard.press("Tab");
await page.keyboard.press("Space");
assert.equal(await page.locator("tbody input:checked").count(), 1);
await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
await page.waitForURL("**/runs/*-ndr-*");
await page.goBack();
await page.waitForURL("**/runs?q=kind%3Andr");
assert.equal(await page.locator("#filter").inputValue(), "kind:ndr");

// a page that the server refuses to let follow, because too many do, tries again
const refused = await open({});
let attempts = 0;
await refused.route((url) => url.pathname.endsWith("/events"), (route) => attempts++ ? route.continue() : route.fulfill({ status: 503, body: "" }));
await refused.goto(`${at}/runs/${stored[0]}`);
await refused.waitForFunction(() => Number(document.querySelector("[data-events]")?.dataset.events) > 0);
await refused.context().close();

// what others have named so stays text
await page.goto(at);
await page.waitForSelector("tbody tr");
const hints = await page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.title));
assert.ok(hints.some((hint) => hint.includes("<img src=x onerror=alert(1)>")), hints);
assert.equal(await page.locator("main img").count(), 0);
await page.goto(`${at}/runs/${stored[0]}`);
await page.getByText("<img src=x onerror=alert(1)>").waitFor();
await page.goto(`${at}/runs/${ndr[0]}`);
// the content of the report
await page.getByRole("heading", { name: "Glossary" }).waitFor();

// two runs are followed, one of them in two browsers; the server is killed meanwhile, and none misses an event
if (live !== "-") {
  const going = await ask("run");
  const watching = await open({});
  // only runs by windows have one
  await watching.route("**/load", (route) => route.fulfill({ body: "<figure>the chart of the server</figure>" }));
  await watching.goto(`${at}/runs/${going}`);
  // a report that the server needs long for is not asked for again before it has arrived
  const slow = await open({});
  let abandoned = 0;
  slow.on("requestfailed", (request) => abandoned += Number(request.url().endsWith("/report")));
  await slow.route("**/report", (route) => setTimeout(() => route.continue().catch(() => {}), 5000));
  await slow.goto(`${at}/runs/${going}`);
  // the last part of a report changes, too
  const changing = await open({});
  let version = 0;
  await changing.route("**/report", (route) => route.fulfill({ body: `<h1>So far</h1><section><h2>Last</h2><p>version ${++version}</p></section>` }));
  await changing.goto(`${at}/runs/${going}`);
  await page.goto(`${at}/runs/${going}#token=${token}`);
  assert.ok(!page.url().includes("token"), "the token stays out of the address");
  await watching.locator("progress").waitFor();
  await watching.getByText("the chart of the server").waitFor();
  assert.equal(await watching.getByRole("button", { name: "stop" }).count(), 0, "nobody steers without the token");
  // the report changes with every iteration, and what the reader has opened stays open
  const heading = watching.getByRole("heading", { level: 1, name: /^So far, after / });
  await heading.waitFor();
  const early = await heading.textContent();
  // by its name: others appear above it during the run
  const folded = watching.locator("main div section details", { hasText: "Parameters and facts of the host" });
  await folded.locator("summary").click();
  await watching.waitForFunction((early) => [...document.querySelectorAll("main div")].some((host) => {
    const now = host.shadowRoot?.querySelector("h1")?.textContent;
    return now?.startsWith("So far") && now !== early;
  }), early);
  assert.ok(await folded.evaluate((one) => one.open), "what was opened stays open");
  await slow.getByRole("heading", { level: 1, name: /^So far, after / }).waitFor();
  assert.equal(abandoned, 0, "requests for the report that were given up");
  await slow.close();
  await changing.getByText(/^version [3-9]/).waitFor();
  assert.equal(await changing.getByText(/^version/).count(), 1);
  await changing.close();
  // a run of one turn shows what it found so far, although no iteration has ended
  const single = await open({});
  const turn = await ask("run");
  await single.goto(`${at}/runs/${turn}#token=${token}`);
  await single.getByRole("heading", { level: 1, name: /^So far, / }).waitFor();
  const all = [page, watching, single];
  await ask("kill");
  for (const each of all) await each.getByText("no connection to the server").waitFor();
  const events = (each) => each.locator("[data-events]").getAttribute("data-events").then(Number);
  const known = await Promise.all(all.map(events));
  await ask("start");
  for (const each of all) await each.getByText("no connection to the server").waitFor({ state: "detached" });
  // both go on where they were
  for (const [n, each] of all.entries()) {
    await each.waitForFunction((known) => Number(document.querySelector("[data-events]").dataset.events) > known, known[n]);
  }
  await page.getByRole("button", { name: "pause" }).click();
  for (const each of [page, watching]) await each.getByText("Paused.").waitFor();
  await page.getByRole("button", { name: "resume" }).click();
  for (const each of [page, watching]) await each.getByText("Paused.").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "stop" }).click();
  for (const each of [page, watching]) await each.locator("section[aria-labelledby=now]").waitFor({ state: "detached" });
  await watching.getByRole("heading", { level: 1, name: /^Interrupted/ }).waitFor();
  await single.getByRole("button", { name: "stop" }).click();
  await single.locator("section[aria-labelledby=now]").waitFor({ state: "detached" });
  const [lines, linesOfTurn] = (await ask("count")).split(" ").map(Number);
  assert.deepEqual(await Promise.all(all.map(events)), [lines, lines, linesOfTurn]);
}
assert.deepEqual(wrong, []);
assert.ok(await shown(page));
await browser.close();
console.log("done");
process.exit(0);
