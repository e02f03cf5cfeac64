// The dashboard: the page for each address, and the frame around all pages.
import "./style.css";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { go, useAddress } from "./address";
import { takeToken } from "./api";
import { Link } from "./parts";
import { Beds } from "./pages/beds";
import { Compare } from "./pages/compare";
import { Flame } from "./pages/flame";
import { Run } from "./pages/run";
import { Runs } from "./pages/runs";
import { Trend } from "./pages/trend";

const PAGES: [string, string, string][] = [
  ["r", "/runs", "Runs"],
  ["t", "/trend", "Trend"],
  ["b", "/beds", "Test beds"],
];

function page(path: string) {
  const run = /^\/runs\/([^/]+)$/.exec(path);
  if (run) return { title: decodeURIComponent(run[1]), shown: <Run key={run[1]} id={decodeURIComponent(run[1])} /> };
  if (path === "/compare") return { title: "Compare", shown: <Compare /> };
  if (path === "/trend") return { title: "Trend", shown: <Trend /> };
  if (path === "/beds") return { title: "Test beds", shown: <Beds /> };
  if (path === "/flame") return { title: "Flame graph", shown: <Flame /> };
  return { title: "Runs", shown: <Runs /> };
}

const THEME = "fwdlab-theme";
const theme = (name: string | null) => {
  if (name) document.documentElement.dataset.theme = name;
};

function App() {
  const url = useAddress();
  const help = useRef<HTMLDialogElement>(null);
  const { title, shown } = page(url.pathname);
  useEffect(() => {
    document.title = `${title} - fwdlab`;
  }, [title]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      const to = PAGES.find(([key]) => key === event.key);
      if (to) go(to[1]);
      else if (event.key === "?") help.current?.showModal();
      else if (event.key === "/") document.getElementById("filter")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const dark = () => {
    const now = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    localStorage.setItem(THEME, next);
    theme(next);
  };
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <header>
        <strong>fwdlab</strong>
        <nav aria-label="Pages">{PAGES.map(([, to, name]) => <Link key={to} to={to} current={url.pathname.startsWith(to) || (to === "/runs" && url.pathname === "/")}>{name}</Link>)}</nav>
        <button type="button" onClick={dark}>Light or dark</button>
        <button type="button" onClick={() => help.current?.showModal()}>Keys</button>
      </header>
      <main id="main" tabIndex={-1}>{shown}</main>
      <dialog ref={help} aria-labelledby="keys">
        <h2 id="keys">Keys</h2>
        <dl>{PAGES.map(([key, , name]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{name}</dd></div>)}
          <div><dt><kbd>/</kbd></dt><dd>Filter runs</dd></div><div><dt><kbd>?</kbd></dt><dd>Show the keys</dd></div></dl>
        <form method="dialog"><button>Close</button></form>
      </dialog>
    </>
  );
}

theme(localStorage.getItem(THEME));
void takeToken().finally(() => render(<App />, document.getElementById("app")!));
