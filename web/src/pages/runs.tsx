// The runs that match the filter, newest first; selected ones can be compared.
import { useEffect, useState } from "preact/hooks";
import { changed, go, useAddress } from "../address";
import { get, type Line } from "../api";
import { moment } from "../format";
import { Link, Scroll, State, Tags, Waiting, runAt, useAsked } from "../parts";

export function Runs() {
  const url = useAddress();
  const q = url.searchParams.get("q") ?? "";
  const [typed, type] = useState(q);
  const [chosen, choose] = useState<string[]>([]);
  useEffect(() => {
    if (typed === q) return;
    const wait = setTimeout(() => go(changed(url, { q: typed }), true), 200);
    return () => clearTimeout(wait);
  }, [typed]);
  const asked = useAsked(`runs ${q}`, (signal) => get<Line[]>(`/api/runs?q=${encodeURIComponent(q)}`, signal));
  const toggle = (id: string) => choose(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  const query = chosen.map((id) => `run=${encodeURIComponent(id)}`).join("&");
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
      {!asked.value ? <Waiting asked={asked} /> : asked.value.length === 0 ? <p>No run {q ? "matches." : "yet: measure with fwdlab quick."}</p> : (
        <Scroll label="Runs">
          <table>
            <thead><tr><td /><th scope="col">Run</th><th scope="col">State</th><th scope="col">Started (UTC)</th><th scope="col">Test bed</th><th scope="col">Result</th></tr></thead>
            <tbody>
              {asked.value.map((line) => (
                <tr key={line.id}>
                  <td><input type="checkbox" checked={chosen.includes(line.id)} onChange={() => toggle(line.id)} aria-label={`compare ${line.id}`} /></td>
                  <td class="time"><Link to={runAt(line.id)}>{line.id}</Link>{line.name && <div class="quiet">{line.name}</div>}<Tags tags={line.tags} /></td>
                  <td><State state={line.state} /></td>
                  <td class="time">{moment(line.started_at)}</td>
                  <td>{line.bed}</td>
                  <td>{line.problem ? <span class="error">{line.problem}</span> : line.result}{line.note && <div class="note">{line.note}</div>}{line.test_cases > 1 && <div class="quiet">{line.test_cases} test cases</div>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </>
  );
}
