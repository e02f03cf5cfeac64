// Two or more runs: the differences, and whether they are proven.
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
  const asked = useAsked(`compare ${query}`, (signal) => runs.length > 1 ? get<Compared>(`/api/compare?${query}`, signal) : Promise.reject(new Error("Select two or more runs on the page of runs.")));
  const without = (run: string) => `/compare?${new URLSearchParams(runs.filter((one) => one !== run).map((one) => ["run", one]))}`;
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  const outcome = asked.value?.outcome;
  const by = [...new Set(outcome?.columns.flatMap((c) => Object.keys(c.labels)) ?? [])].sort();
  return (
    <>
      {asked.value && outcome ? <Fragment html={asked.value.html} /> : <><h1>Compare</h1><Waiting asked={asked} /></>}
      {asked.value && outcome && (
        <>
          <p class="tools">
            <Choice label="Metric" value={outcome.metric} values={asked.value.metrics} on={(v) => show({ metric: v })} />{" "}
            <Choice label="Columns" value={url.searchParams.get("by") ?? "source"} values={["source", ...by]} on={(v) => show({ by: v === "source" ? "" : v })} />
          </p>
          <details><summary>As text</summary><pre tabIndex={0}>{asked.value.text}</pre></details>
          <details><summary>As ministat prints it</summary><pre tabIndex={0}>{asked.value.ministat}</pre></details>
        </>
      )}
      <ul class="chosen">{runs.map((run) => <li key={run}><Link to={runAt(run)}>{run}</Link> {runs.length > 1 && <Link to={without(run)}>remove<span class="hidden"> {run}</span></Link>}</li>)}</ul>
    </>
  );
}
