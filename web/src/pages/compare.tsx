// Two or more runs: the differences, and whether they are proven.
import { changed, go, useAddress } from "../address";
import { get, type Comparison, type Compared } from "../api";
import { digits, withUnit } from "../format";
import { Choice, Link, Scroll, Waiting, runAt, useAsked } from "../parts";

const WORDS: Record<string, string> = { cannot_tell: "cannot tell", no_difference: "no difference shown", differs: "differs", equivalent: "equivalent" };

function verdict(c: Comparison): string {
  const word = WORDS[c.verdict] ?? c.verdict.replaceAll("_", " ");
  if (c.difference_percent === null || c.verdict === "cannot_tell") return word;
  const sign = (v: number) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${digits(Math.abs(v))}`;
  const within = c.interval_percent ? ` [${sign(c.interval_percent[0])}, ${sign(c.interval_percent[1])}]` : "";
  return `${sign(c.difference_percent)} %${within}, ${word}`;
}

export function Compare() {
  const url = useAddress();
  const runs = url.searchParams.getAll("run");
  const query = new URLSearchParams(runs.map((run) => ["run", run]));
  for (const key of ["metric", "by"]) {
    const value = url.searchParams.get(key);
    if (value) query.set(key, value);
  }
  const asked = useAsked(`compare ${query}`, (signal) => runs.length > 1 ? get<Compared>(`/api/compare?${query}`, signal) : Promise.reject(new Error("Select two or more runs on the page of runs.")));
  const without = (run: string) => `/compare?${new URLSearchParams(runs.filter((one) => one !== run).map((one) => ["run", one]))}`;
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  const outcome = asked.value?.outcome;
  const by = [...new Set(outcome?.columns.flatMap((c) => Object.keys(c.labels)) ?? [])].sort();
  return (
    <>
      <h1>Compare</h1>
      <ul class="chosen">{runs.map((run) => <li key={run}><Link to={runAt(run)}>{run}</Link> {runs.length > 1 && <Link to={without(run)}>remove<span class="hidden"> {run}</span></Link>}</li>)}</ul>
      {!asked.value || !outcome ? <Waiting asked={asked} /> : (
        <>
          <p class="tools">
            <Choice label="Metric" value={outcome.metric} values={asked.value.metrics} on={(v) => show({ metric: v })} />{" "}
            <Choice label="Columns" value={url.searchParams.get("by") ?? "source"} values={["source", ...by]} on={(v) => show({ by: v === "source" ? "" : v })} />
          </p>
          <Scroll label="Comparison">
            <table>
              <thead><tr><th scope="col">Test case</th>{outcome.columns.map((c) => <th scope="col" key={c.name} class="n">{c.name}{c.name === outcome.baseline && <div class="quiet">baseline</div>}</th>)}</tr></thead>
              <tbody>{outcome.rows.map((row) => (
                <tr key={row.test_case}>
                  <th scope="row">{row.test_case}</th>
                  {outcome.columns.map((column) => {
                    const cell = row.cells.find((c) => c.column === column.name);
                    const against = row.comparisons.find((c) => c.column === column.name);
                    return (
                      <td key={column.name} class="n">
                        {cell ? <>{withUnit(cell.median, outcome.unit)}<div class="quiet">{cell.n > 1 ? `${withUnit(cell.min, outcome.unit)} to ${withUnit(cell.max, outcome.unit)}, ` : ""}n {cell.n}</div></> : "not measured"}
                        {against && <div class={against.verdict === "differs" ? "differs" : ""}>{verdict(against)}{against.p_value !== null && `, p ${against.p_value < 0.001 ? "< 0.001" : digits(against.p_value)}`}</div>}
                      </td>
                    );
                  })}
                </tr>
              ))}</tbody>
            </table>
          </Scroll>
          <details><summary>As text</summary><pre tabIndex={0}>{asked.value.text}</pre></details>
          <details><summary>As ministat prints it</summary><pre tabIndex={0}>{asked.value.ministat}</pre></details>
        </>
      )}
    </>
  );
}
