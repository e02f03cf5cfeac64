// The test beds of all runs.
import { get, type Bed } from "../api";
import { moment } from "../format";
import { Link, Scroll, Waiting, runAt, useAsked } from "../parts";

export function Beds() {
  const asked = useAsked("beds", (signal) => get<Bed[]>("/api/beds", signal));
  return (
    <>
      <h1>Test beds</h1>
      {!asked.value ? <Waiting asked={asked} /> : (
        <Scroll label="Test beds">
          <table>
            <thead><tr><th scope="col">Test bed</th><th scope="col">Kernel and CPU of the latest run</th><th scope="col" class="n">Runs</th><th scope="col">Latest</th><th scope="col">Now</th></tr></thead>
            <tbody>{asked.value.map((bed) => (
              <tr key={bed.name}>
                <th scope="row"><Link to={`/runs?q=${encodeURIComponent(`bed:${bed.name.replaceAll(" ", "*")}`)}`}>{bed.name}</Link></th>
                <td>{String(bed.facts.kernel ?? "")}<div class="quiet">{String(bed.facts.cpus ?? "")} × {String(bed.facts.cpu_model ?? "")}</div></td>
                <td class="n">{bed.runs}</td>
                <td><Link to={runAt(bed.last_run)}>{bed.last_run}</Link><div class="quiet">{moment(bed.last_started_at)}</div></td>
                <td>{bed.running.length ? bed.running.map((id) => <Link key={id} to={runAt(id)}>{id}</Link>) : "idle"}</td>
              </tr>
            ))}</tbody>
          </table>
        </Scroll>
      )}
    </>
  );
}
