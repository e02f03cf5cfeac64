// A figure over all runs, with its changes and what else differed there.
import { changed, go, useAddress } from "../address";
import { get, type Trend as Data } from "../api";
import { Axes, Dot, HUES } from "../charts/axes";
import { median, moment, withUnit } from "../format";
import { Choice, Link, Scroll, Waiting, runAt, useAsked } from "../parts";

export function Trend() {
  const url = useAddress();
  const of = url.searchParams.get("of") ?? "";
  const metric = url.searchParams.get("metric") ?? "";
  const asked = useAsked(`trend ${of} ${metric}`, (signal) => get<Data>(`/api/trend?${new URLSearchParams({ of, metric })}`, signal));
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  const data = asked.value;
  return (
    <>
      <h1>Trend</h1>
      {!data ? <Waiting asked={asked} /> : data.runs.length === 0 ? <p>No run with a result yet.</p> : (
        <>
          <p class="tools">
            <Choice label="Runs of" value={data.of} values={data.families} on={(v) => show({ of: v, metric: "" })} />{" "}
            {data.metric && <Choice label="Metric" value={data.metric} values={data.metrics} on={(v) => show({ metric: v })} />}
          </p>
          <Lines data={data} />
          <Changes data={data} />
        </>
      )}
    </>
  );
}

function Lines(props: { data: Data }) {
  const { runs, series, metric, changes } = props.data;
  const cases = [...new Set(series.flatMap((all) => all.map((s) => s.test_case)))];
  const values = cases.map((name) => series.map((all) => {
    const found = all.find((s) => s.test_case === name);
    return found && found.values.length ? median(found.values) : null;
  }));
  const unit = series.flat()[0]?.unit ?? "";
  const most = Math.max(...values.flat().map((v) => v ?? 0));
  const starts = [...new Set((changes?.rows ?? []).flatMap((row) => row.groups.slice(1).map((g) => g.first)))];
  // as many names as fit
  const every = Math.ceil(runs.length / 8);
  return (
    <figure>
      <Axes label={`${metric} of ${runs.length} runs of ${props.data.of}; ${starts.length} changes`} most={most} xs={[0, Math.max(1, runs.length - 1)]}
        yName={(v) => withUnit(v, unit)} xTicks={runs.map((run, at) => ({ at, name: run.started_at.slice(5, 10) })).filter((_, n) => n % every === 0)}
        draw={({ x, y, height }) => (
          <>
            {starts.map((at) => <line key={at} class="change" x1={x(at - 0.5)} x2={x(at - 0.5)} y1={8} y2={height - 34}><title>a change</title></line>)}
            {values.map((of, n) => (
              <g key={cases[n]}>
                <path class={`line ${HUES[n % HUES.length]}`} d={of.map((v, i) => (v === null ? "" : `${of.slice(0, i).some((p) => p !== null) ? "L" : "M"}${x(i)} ${y(v)}`)).join("")} />
                {of.map((v, i) => v !== null && <Dot key={i} x={x(i)} y={y(v)} n={n} title={`${runs[i].run}: ${withUnit(v, unit)}`} />)}
              </g>
            ))}
          </>
        )} />
      <figcaption>{cases.map((name, n) => <span key={name}><span class={`key ${HUES[n % HUES.length]}`} /> {name} </span>)}</figcaption>
    </figure>
  );
}

function Changes(props: { data: Data }) {
  const { changes, runs, series } = props.data;
  const unit = series.flat()[0]?.unit ?? "";
  const found = (changes?.rows ?? []).flatMap((row) => row.groups.slice(1).map((group, n) => ({ row, group, before: row.groups[n] })));
  if (!found.length) return <p>No change is shown: {runs.length < 4 ? "there are few runs." : "differences may be chance."}</p>;
  return (
    <Scroll label="Changes">
      <table>
        <thead><tr><th scope="col">Test case</th><th scope="col">From run</th><th scope="col" class="n">Before</th><th scope="col" class="n">After</th><th scope="col">What else was different</th></tr></thead>
        <tbody>{found.map(({ row, group, before }) => {
          const [old, now] = [runs.find((r) => r.run === before.to), runs.find((r) => r.run === group.from)];
          const differs = old && now ? Object.keys(now.facts).filter((key) => old.facts[key] !== now.facts[key]) : [];
          return (
            <tr key={`${row.test_case} ${group.from}`}>
              <th scope="row">{row.test_case}</th><td><Link to={runAt(group.from)}>{group.from}</Link><div class="quiet">{moment(now?.started_at)}{group.unconfirmed && ", one run only"}</div></td>
              <td class="n">{withUnit(before.mean, unit)}</td><td class="n">{withUnit(group.mean, unit)}</td>
              <td>{differs.length ? differs.map((key) => <div key={key}>{key}: {old!.facts[key].slice(0, 80)} → {now!.facts[key].slice(0, 80)}</div>) : "no recorded fact"}</td>
            </tr>
          );
        })}</tbody>
      </table>
    </Scroll>
  );
}
