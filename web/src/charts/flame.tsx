// A flame graph: call paths as nested bars whose width is their share. Every bar is a button, usable by keyboard.
import { useMemo, useState } from "preact/hooks";
import { digits, percent } from "../format";

interface Node { name: string; total: number; other: number; below: Map<string, Node> }

const node = (name: string): Node => ({ name, total: 0, other: 0, below: new Map() });

/** Folded stacks, one `a;b;c 12` per line, and those of another profile for comparison. */
function tree(folded: string, other: string | null): Node {
  const root = node("all");
  const add = (text: string, key: "total" | "other") => {
    for (const line of text.split("\n")) {
      const at = line.lastIndexOf(" ");
      const count = Number(line.slice(at + 1));
      if (at < 0 || !Number.isFinite(count)) continue;
      let here = root;
      here[key] += count;
      for (const name of line.slice(0, at).split(";")) {
        let next = here.below.get(name);
        if (!next) here.below.set(name, (next = node(name)));
        next[key] += count;
        here = next;
      }
    }
  };
  add(folded, "total");
  if (other !== null) add(other, "other");
  return root;
}

/** Narrower bars are not drawn: the share of the width. */
const LEAST = 0.0015;

interface Bar { node: Node; path: string; depth: number; from: number; share: number }

function bars(root: Node, path: string): Bar[] {
  const found: Bar[] = [];
  const visit = (one: Node, way: string, depth: number, from: number) => {
    const share = one.total / root.total;
    if (share < LEAST) return;
    found.push({ node: one, path: way, depth, from, share });
    let at = from;
    for (const below of [...one.below.values()].sort((a, b) => a.name.localeCompare(b.name))) {
      visit(below, way ? `${way};${below.name}` : below.name, depth + 1, at);
      at += below.total / root.total;
    }
  };
  visit(root, path, 0, 0);
  return found;
}

export function FlameGraph(props: { folded: string; other: string | null; unit: string; at: string; to: (path: string) => void }) {
  const whole = useMemo(() => tree(props.folded, props.other), [props.folded, props.other]);
  const [wanted, search] = useState("");
  let root = whole;
  for (const name of props.at ? props.at.split(";") : []) root = root.below.get(name) ?? root;
  const drawn = useMemo(() => bars(root, props.at), [root]);
  const depth = Math.max(...drawn.map((bar) => bar.depth)) + 1;
  const is = (name: string) => wanted !== "" && name.toLowerCase().includes(wanted.toLowerCase());
  // a path is counted once, however often its names match
  let matched = 0;
  const count = (one: Node, inside: boolean) => {
    const here = inside || is(one.name);
    if (here && !inside) matched += one.total;
    if (!here) one.below.forEach((below) => count(below, false));
  };
  if (wanted) count(root, false);
  // the totals of two runs are not comparable, their shares are
  const shift = (one: Node) => (props.other === null ? 0 : one.total / whole.total - one.other / (whole.other || 1));
  const hue = (bar: Bar) => {
    // a function of another program has its name after @
    if (props.other === null && bar.node.name.includes(" @")) return "same";
    if (props.other === null) return ["f0", "f1", "f2", "f3"][(bar.node.name.length * 7 + bar.depth) % 4];
    const by = shift(bar.node);
    return Math.abs(by) < 0.002 ? "same" : by > 0 ? "more" : "less";
  };
  return (
    <div class="flames">
      <p class="tools">
        <label>Search <input type="search" value={wanted} onInput={(event) => search(event.currentTarget.value)} /></label>{" "}
        {wanted && <output>{percent(matched / root.total)} of what is shown is in {wanted}</output>}{" "}
        {props.at && <button type="button" onClick={() => props.to("")}>Show all</button>}
      </p>
      <div class="flame" style={{ height: `${depth * 20}px` }} role="group" aria-label={`${digits(root.total)} ${props.unit}, by call path`}>
        {drawn.map((bar) => {
          const by = shift(bar.node);
          const label = `${bar.node.name}: ${digits(bar.node.total)} ${props.unit}, ${percent(bar.node.total / whole.total)}`
            + (props.other === null ? "" : `, ${by >= 0 ? "+" : "−"}${percent(Math.abs(by))} compared with the other`);
          return (
            <button type="button" key={bar.path} title={label} aria-label={label} onClick={() => props.to(bar.path)}
              class={`${hue(bar)}${is(bar.node.name) ? " found" : ""}`}
              style={{ left: `${bar.from * 100}%`, width: `${bar.share * 100}%`, bottom: `${bar.depth * 20}px` }}>
              {bar.share > 0.03 ? bar.node.name : ""}
            </button>
          );
        })}
      </div>
    </div>
  );
}
