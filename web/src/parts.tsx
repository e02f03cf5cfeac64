// Small components shared by pages.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "./address";
import { turnPages } from "./rows";

/** A link within the dashboard; with a modifier key the browser handles it as usual. */
export function Link(props: { to: string; children: ComponentChildren; class?: string; current?: boolean }) {
  const follow = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(props.to);
    scrollTo(0, 0);
  };
  return <a href={props.to} class={props.class} aria-current={props.current ? "page" : undefined} onClick={follow}>{props.children}</a>;
}

export const runAt = (id: string) => `/runs/${encodeURIComponent(id)}`;

const MARKS: Record<string, string> = { running: "▶", finished: "✓", interrupted: "⏸", failed: "✕", damaged: "!" };

export function State(props: { state: string | null }) {
  const state = props.state ?? "damaged";
  return <span class={`state ${state}`}><span aria-hidden="true">{MARKS[state] ?? "·"}</span> {state}</span>;
}

/** The tags of a run; each links to the runs that have it. */
export function Tags(props: { tags: string[] }) {
  return <>{props.tags.map((tag) => <Link key={tag} class="tag" to={`/runs?q=${encodeURIComponent(`tag:${tag}`)}`}>{tag}</Link>)}</>;
}

export type Asked<T> = { value?: T; error?: string };

/** Sends a request whenever `key` changes, and ignores answers to older ones. With `keep`, the last answer stays until the next one arrives. */
export function useAsked<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, keep = false): Asked<T> {
  const [asked, set] = useState<Asked<T> & { of?: string }>({});
  useEffect(() => {
    const stop = new AbortController();
    ask(stop.signal).then(
      (value) => set({ value, of: key }),
      (error: Error) => stop.signal.aborted || set({ error: error.message, of: key }),
    );
    return () => stop.abort();
  }, [key]);
  return asked.of === key || keep ? asked : {};
}

/** Follows a value, but changes at most once in this time; with `Infinity` not at all. */
export function useSlowly<T>(value: T, milliseconds: number): T {
  const [shown, show] = useState(value);
  const [last, setLast] = useState(0);
  useEffect(() => {
    if (value === shown || milliseconds === Infinity) return;
    const timer = setTimeout(() => {
      setLast(Date.now());
      show(value);
    }, Math.max(0, last + milliseconds - Date.now()));
    return () => clearTimeout(timer);
  }, [value, shown, last, milliseconds]);
  return shown;
}

/** Shown until the answer arrives. */
export function Waiting(props: { asked: Asked<unknown> }) {
  return props.asked.error
    ? <p role="alert" class="error">{props.asked.error}</p>
    : <p class="quiet" aria-busy="true">Reading…</p>;
}

/** A wide table scrolls separately from the page, also by keyboard. */
export function Scroll(props: { label: string; low?: boolean; children: ComponentChildren }) {
  return <div class={props.low ? "scroll low" : "scroll"} tabIndex={0} role="group" aria-label={props.label}>{props.children}</div>;
}

export function Choice(props: { label: string; value: string; values: string[]; on: (value: string) => void }) {
  return (
    <label class="choice">{props.label}{" "}
      <select value={props.value} onChange={(event) => props.on(event.currentTarget.value)}>
        {props.values.map((value) => <option key={value} value={value}>{value}</option>)}
      </select>
    </label>
  );
}

/** Replaces what differs, so that the rest stays as the reader left it: what is open, selected or scrolled. */
function patch(root: ShadowRoot, html: string) {
  const fresh = document.createElement("template");
  fresh.innerHTML = `<link rel="stylesheet" href="/assets/report.css">${html}`;
  const name = (part: Element) => `${part.tagName} ${part.querySelector("h1, h2, summary")?.textContent ?? part.className}`;
  const left = [...root.children].map((part) => ({ part, name: name(part) }));
  let at: Element | null = root.firstElementChild;
  for (const part of [...fresh.content.children]) {
    const found = left.findIndex((old) => old.name === name(part));
    const old = found < 0 ? undefined : left.splice(found, 1)[0].part;
    const [folded, paged] = ["details", ".pages"].map((of) => old?.querySelectorAll<any>(of));
    part.querySelectorAll("details").forEach((one, n) => one.open = folded?.[n]?.open ?? one.open);
    part.querySelectorAll<HTMLElement>(".pages").forEach((one, n) => one.dataset.shown = paged?.[n]?.dataset.page ?? "1");
    const same = old?.outerHTML === part.outerHTML ? old : undefined;
    if (same && same === at) {
      at = at.nextElementSibling;
      continue;
    }
    if (old && old === at) at = at.nextElementSibling;
    old?.remove();
    root.insertBefore(same ?? part, at);
  }
  left.forEach((old) => old.part.remove());
  turnPages(root);
}

/** Content that the server has rendered, with the style of reports in a tree of its own. */
export function Fragment(props: { html: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    patch(root, props.html);
    const title = root.querySelector("h1")?.textContent;
    if (title) document.title = `${title} - fwdlab`;
  }, [props.html]);
  // the browser looks for the target of a link only in the page itself
  const jump = (event: MouseEvent) => {
    const link = (event.composedPath()[0] as Element).closest?.("a[href^='#']");
    const target = link && host.current?.shadowRoot?.getElementById(link.getAttribute("href")!.slice(1));
    if (!target) return;
    event.preventDefault();
    for (let above = target.closest("details"); above; above = above.parentElement?.closest("details") ?? null) above.open = true;
    target.scrollIntoView();
  };
  return <div ref={host} onClick={jump} />;
}
