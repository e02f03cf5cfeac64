// Two or more runs, or the test cases of one: the differences, and whether they are proven.
import { changed, go, useAddress } from "../address";
import { get, type Compared } from "../api";
import { Choice, Fragment, Link, Waiting, runAt, useAsked } from "../parts";

export function Compare() {
  const url = useAddress();
  const runs = url.searchParams.getAll("run");
  const query = new URLSearchParams(runs.map((run) => ["run", run]));
  for (const key of ["metric", "by"]) {
    const value = url.searchParams.get(key);
    if (value) query.set(key, value);
  }
  const asked = useAsked(`compare ${query}`, (signal) => get<Compared>(`/api/compare?${query}`, signal));
  const without = (run: string) => `/compare?${new URLSearchParams(runs.filter((one) => one !== run).map((one) => ["run", one]))}`;
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  const data = asked.value;
  return (
    <>
      {data ? <Fragment html={data.html} /> : <><h1>Compare</h1><Waiting asked={asked} /></>}
      {data && (
        <>
          <p class="tools">
            <Choice label="Metric" value={data.outcome.metric} values={data.metrics} on={(v) => show({ metric: v })} />{" "}
            <Choice label="Columns" value={data.by ?? "source"} values={runs.length > 1 ? ["source", ...data.labels] : data.labels}
              on={(v) => show({ by: v === "source" ? "" : v })} />
          </p>
          <details><summary>As text</summary><pre tabIndex={0}>{data.text}</pre></details>
          <details><summary>As ministat prints it</summary><pre tabIndex={0}>{data.ministat}</pre></details>
        </>
      )}
      <ul class="chosen">{runs.map((run) => <li key={run}><Link to={runAt(run)}>{run}</Link> {runs.length > 1 && <Link to={without(run)}>remove<span class="hidden"> {run}</span></Link>}</li>)}</ul>
    </>
  );
}
