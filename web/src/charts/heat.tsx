// A table whose cells are shaded by how much: CPUs or queues of the DUT, by iteration. The number stands in the cell.
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

/** Both heat maps of a test case, where its DUT's host was looked at. */
export function Loads(props: { one: TestCase }) {
  const told = props.one.iterations.filter((i) => i.telemetry);
  if (!told.length) return <p class="quiet">The DUT's host was not looked at in this test case.</p>;
  const heads = told.map((i) => String(i.iteration));
  const names = (of: (t: NonNullable<(typeof told)[0]["telemetry"]>) => string[]) =>
    [...new Set(told.flatMap((i) => of(i.telemetry!)))];
  const cpus = names((t) => (t.cpus ?? []).map((c) => `CPU ${c.cpu}${c.forwards ? " (forwards)" : ""}`));
  const queues = names((t) => (t.queues ?? []).map((q) => `${q.port} ${q.way} ${q.queue}`));
  return (
    <>
      {cpus.length > 0 && (
        <Heat title="CPUs of the DUT: busy, % of the time of each iteration" heads={heads} rows={cpus.map((name) => ({
          name,
          cells: told.map((i) => {
            const cpu = i.telemetry!.cpus?.find((c) => name.startsWith(`CPU ${c.cpu}`) && (name.length === `CPU ${c.cpu}`.length || name[`CPU ${c.cpu}`.length] === " "));
            return cpu ? busy(cpu) : null;
          }),
        }))} />
      )}
      {queues.length > 0 && (
        <Heat title="Queues of the DUT: % of what all queues of the port and way had" heads={heads} rows={queues.map((name) => ({
          name,
          cells: told.map((i) => i.telemetry!.queues?.find((q) => `${q.port} ${q.way} ${q.queue}` === name)?.ratio ?? null),
        }))} />
      )}
    </>
  );
}
