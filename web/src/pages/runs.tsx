// A page of the runs that match the filter, newest first; selected ones can be compared.
import { useEffect, useState } from "preact/hooks";
import { changed, go, useAddress } from "../address";
import { get, type Line } from "../api";
import { moment, span } from "../format";
import { Link, State, Tags, Waiting, runAt, useAsked } from "../parts";

/** What the result of a finished run is worth: a sign, and words. */
const MARKS: Record<string, [string, string]> = {
  good: ["✓", "no doubt"],
  doubtful: ["≈", "doubtful: too noisy, or a control differs"],
  "no-result": ["–", "no result"],
  inconclusive: ["?", "a threshold could not be judged"],
  "limit-exceeded": ["✕", "limit exceeded"],
};

function Mark(props: { line: Line }) {
  const { state, mark } = props.line;
  if (state !== "finished" || !mark) return <State state={state === "finished" ? null : state} />;
  const [sign, words] = MARKS[mark] ?? ["·", mark];
  return <span class={`mark-${mark}`} role="img" aria-label={words} title={words}>{sign}</span>;
}

export function Runs() {
  const url = useAddress();
  const q = url.searchParams.get("q") ?? "";
  const page = Math.max(1, Number(url.searchParams.get("page")) || 1);
  const [typed, type] = useState(q);
  const [chosen, choose] = useState<string[]>([]);
  useEffect(() => {
    if (typed === q) return;
    const wait = setTimeout(() => go(changed(url, { q: typed, page: "" }), true), 200);
    return () => clearTimeout(wait);
  }, [typed]);
  const asked = useAsked(`runs ${q} ${page}`, (signal) =>
    get<{ total: number; page_size: number; runs: Line[] }>(`/api/runs?q=${encodeURIComponent(q)}&page=${page}`, signal));
  const toggle = (id: string) => choose(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  const query = chosen.map((id) => `run=${encodeURIComponent(id)}`).join("&");
  const { total, page_size, runs } = asked.value ?? { total: 0, page_size: 1, runs: [] };
  const pages = Math.ceil(total / page_size);
  return (
    <>
      <h1>Runs</h1>
      <p class="tools">
        <label>Filter <input id="filter" type="search" size={40} value={typed} placeholder="kind:ndr state:finished nft-*"
          onInput={(event) => type(event.currentTarget.value)} aria-describedby="filter-help" /></label>{" "}
        {chosen.length > 1
          ? <Link to={`/compare?${query}`} class="button">Compare {chosen.length} runs</Link>
          : <span class="quiet">select two or more to compare them</span>}
      </p>
      <p id="filter-help" class="quiet">Words, and kind: state: tag: bed: id: size: configuration: with * for anything, ! before what must not be.</p>
      {!asked.value ? <Waiting asked={asked} /> : total === 0 && !q ? (
        <p>No runs yet. Measure this machine with <code>fwdlab quick</code>, or bring in published logs with <code>fwdlab import netbenches FOLDER</code>.</p>
      ) : total === 0 ? (
        <p>No run matches <code>{q}</code>. <Link to="/runs">Show all runs</Link></p>
      ) : (
        <table class="runs">
          <thead><tr><td class="box" /><th scope="col" class="sign"><span class="hidden">Verdict</span></th><th scope="col">Result</th><th scope="col" class="kind">Kind</th><th scope="col" class="bed">Test bed</th><th scope="col" class="when">When <span>(UTC)</span></th><th scope="col" class="took">Took</th></tr></thead>
          <tbody>
            {runs.map((line) => (
              <tr key={line.id} title={[line.id, line.problem, line.note].filter(Boolean).join("\n")}>
                <td class="box"><input type="checkbox" checked={chosen.includes(line.id)} onChange={() => toggle(line.id)} aria-label={`compare ${line.id}`} /></td>
                <td class="sign"><Mark line={line} /></td>
                <td><Link to={runAt(line.id)}>{line.problem ?? (line.result || line.id)}</Link> <Tags tags={line.tags} /></td>
                <td class="kind">{line.name ? `${line.kind} ${line.name}` : line.kind}</td>
                <td class="bed">{line.bed}</td>
                <td class="when">{moment(line.measured_at).slice(0, 16)}</td>
                <td class="took">{line.finished_at ? span((Date.parse(line.finished_at) - Date.parse(line.started_at)) / 1000) : "-"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {pages > 1 && (
        <nav class="pages" aria-label="Pages">
          {page > 1 && <Link to={changed(url, { page: `${page - 1}` })}>Newer</Link>}
          <span class="quiet">{((page - 1) * page_size + 1).toLocaleString("en")} to {Math.min(page * page_size, total).toLocaleString("en")} of {total.toLocaleString("en")}</span>
          {page < pages && <Link to={changed(url, { page: `${page + 1}` })}>Older</Link>}
        </nav>
      )}
    </>
  );
}
