// A heat map: CPUs or queues of the DUT, by iteration. Cells show their number.
import type { Cpu, TestCase } from "../api";
import { Scroll } from "../parts";

export interface HeatRow { name: string; cells: (number | null)[] }

export function Heat(props: { title: string; heads: string[]; rows: HeatRow[] }) {
  return (
    <Scroll label={props.title}>
      <table class="heat">
        <caption>{props.title}</caption>
        <thead><tr><td />{props.heads.map((head) => <th scope="col" key={head}>{head}</th>)}</tr></thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">{row.name}</th>
              {row.cells.map((cell, n) => (
                <td key={n} class={cell === null ? "" : `h${Math.min(9, Math.floor(cell * 10))}`}>
                  {cell === null ? "-" : Math.round(cell * 100)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

const busy = (cpu: Cpu) => 1 - cpu.idle_ratio;

/** Both heat maps of a test case, if telemetry of the DUT's host was recorded. */
export function Loads(props: { one: TestCase }) {
  const measured = props.one.iterations.filter((i) => i.telemetry);
  if (!measured.length) return <p class="quiet">No telemetry of the DUT's host in this test case.</p>;
  const heads = measured.map((i) => String(i.iteration));
  const names = (of: (t: NonNullable<(typeof measured)[0]["telemetry"]>) => string[]) =>
    [...new Set(measured.flatMap((i) => of(i.telemetry!)))];
  const cpus = names((t) => (t.cpus ?? []).map((c) => `CPU ${c.cpu}${c.forwards ? " (forwards)" : ""}`));
  const queues = names((t) => (t.queues ?? []).map((q) => `${q.port} ${q.way} ${q.queue}`));
  return (
    <>
      {cpus.length > 0 && (
        <Heat title="CPUs of the DUT: busy, % of the time of each iteration" heads={heads} rows={cpus.map((name) => ({
          name,
          cells: measured.map((i) => {
            const cpu = i.telemetry!.cpus?.find((c) => name.startsWith(`CPU ${c.cpu}`) && (name.length === `CPU ${c.cpu}`.length || name[`CPU ${c.cpu}`.length] === " "));
            return cpu ? busy(cpu) : null;
          }),
        }))} />
      )}
      {queues.length > 0 && (
        <Heat title="Queues of the DUT: % of the frames of the port and direction" heads={heads} rows={queues.map((name) => ({
          name,
          cells: measured.map((i) => i.telemetry!.queues?.find((q) => `${q.port} ${q.way} ${q.queue}` === name)?.ratio ?? null),
        }))} />
      )}
    </>
  );
}
