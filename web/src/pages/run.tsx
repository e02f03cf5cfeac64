// One run: its report; what it does while it is in progress; its trials and events.
import { get, steer, text, token, type Run as Data } from "../api";
import { Axes, Dot, HUES } from "../charts/axes";
import { pps, span, ticks, time } from "../format";
import { type Live, useLive } from "../live";
import { Fragment, Link, Scroll, State, Tags, Waiting, useAsked, useSlowly } from "../parts";
import { useState } from "preact/hooks";

const SHOWN = 100;

/** The least time between two readings of the report of a run in progress, in milliseconds. */
const AGAIN = 2000;

/** It is at least this many times what the last reading took: the server renders on the machine that measures, so a reader may use 10 % of a CPU. */
const TIMES = 10;

export function Run(props: { id: string }) {
  const live = useLive(props.id);
  // the stored run is read again when it has ended
  const asked = useAsked(`run ${props.id} ${live.ended}`, (signal) => get<Data>(`/api/runs/${encodeURIComponent(props.id)}?brief=true`, signal), true);
  return (
    <div data-events={live.events}>
      {!live.ended && !asked.error && <Going run={props.id} live={live} />}
      {asked.value ? <Stored data={asked.value} live={live} /> : <Waiting asked={asked} />}
    </div>
  );
}

function Going(props: { run: string; live: Live }) {
  const { live } = props;
  const [said, say] = useState("");
  const ask = (request: string) => steer(props.run, request).then(() => say(`requested: ${request}`), (error: Error) => say(error.message));
  const most = Math.max(1, ...live.points.map((p) => Math.max(p.offered, p.forwarded)));
  const from = live.points[0]?.t ?? 0;
  const to = live.points[live.points.length - 1]?.t ?? 1;
  const line = (of: (p: Live["points"][0]) => number, x: (v: number) => number, y: (v: number) => number) =>
    live.points.map((p, n) => `${n ? "L" : "M"}${x(p.t).toFixed(1)} ${y(of(p)).toFixed(1)}`).join("");
  return (
    <section aria-labelledby="now">
      <h2 id="now">Now {live.connected ? "" : <span class="error" role="status">no connection to the server; reconnecting</span>}</h2>
      <p role="status" aria-live="off">{live.paused && <strong>Paused. </strong>}{live.activity || "starting"}{live.estimate && `, ${live.estimate}`}</p>
      <progress max={Math.max(1, live.steps)} value={live.done} aria-label="steps done" />{" "}
      {live.done} of {live.steps}, about {span(live.left)} left; {live.trials} trials, {live.invalid} invalid
      {live.points.length > 1 && (
        <figure>
          <Axes label={`Offered and forwarded over time; last ${pps(live.points[live.points.length - 1].forwarded)}`} most={most} xs={[from, to]}
            yName={pps} xTicks={ticks(to - from).map((s) => ({ at: from + s, name: span(s) })).filter((tick) => tick.at <= to)}
            draw={({ x, y }) => (
              <>
                <path class="line orange dashed" d={line((p) => p.offered, x, y)} />
                <path class="line blue" d={line((p) => p.forwarded, x, y)} />
              </>
            )} />
          <figcaption><span class="key orange dashed" /> offered load <span class="key blue" /> forwarding rate, of the last {live.points.length} windows</figcaption>
        </figure>
      )}
      {token()
        ? (
          <p class="tools" role="group" aria-label="Control the run">
            {["pause", "resume", "skip", "stop"].map((request) => (
              <button type="button" key={request} onClick={() => void ask(request)}>{request}</button>
            ))}{" "}<output>{said}</output>
          </p>
        )
        : <p class="quiet">To pause, skip or stop, open the address with #token= that fwdlab serve printed.</p>}
    </section>
  );
}

function Stored(props: { data: Data; live: Live }) {
  const { info, has_result, problems, flames, latencies, labels } = props.data;
  // a run of one turn has no iteration before its end
  const measured = info.parameters.order === "together" ? props.live.trials : props.live.iterations;
  return (
    <>
      <p class="quiet"><State state={info.state} />{!has_result && <> <code>{info.id}</code></>}
        {" · "}<a href={`/runs/${encodeURIComponent(info.id)}/report`}>As one file</a>
        {" · "}<Link to={`/compare?run=${encodeURIComponent(info.id)}`}>Compare</Link>
        {flames.map((f) => <span key={`${f.case} ${f.boot} ${f.of}`}>{" · "}
          <Link to={`/flame?run=${encodeURIComponent(info.id)}&case=${encodeURIComponent(f.case)}&boot=${f.boot}&of=${f.of}`}>Flame graph of {f.case}: {f.of}{f.boot ? `, boot ${f.boot}` : ""}</Link></span>)}</p>
      {(labels.tags.length > 0 || labels.note) && <p class="note"><Tags tags={labels.tags} /> {labels.note}</p>}
      {problems.map((problem) => <p class="error" key={problem}>{problem}</p>)}
      {has_result || measured > 0
        ? <Report run={info.id} version={info.finished_at ?? `${measured} measured`} ended={info.state !== "running"} />
        : <h1>{info.error ?? "No result yet"}</h1>}
      <Latencies run={info.id} of={latencies} />
      {props.live.said.length > 0 && <details>
        <summary>Events: the last {Math.min(SHOWN, props.live.said.length)}</summary>
        <Scroll label="Events" low>
          <table><tbody>{props.live.said.slice(-SHOWN).map((said, n) => (
            <tr key={n}><td class="n time">{said.t.toFixed(1)} s</td><td>{said.kind}</td><td>{said.text}</td></tr>
          ))}</tbody></table>
        </Scroll>
      </details>}
      {!has_result && <details>
        <summary>Settings and facts</summary>
        <pre tabIndex={0}>{JSON.stringify({ command_line: info.command_line, parameters: info.parameters, facts: info.facts }, null, 2)}</pre>
      </details>}
    </>
  );
}

function Report(props: { run: string; version: string; ended: boolean }) {
  // infinite until the answer arrives: another request would abort this one, but not the work of the server
  const [took, setTook] = useState(Infinity);
  const version = useSlowly(props.version, props.ended ? 0 : Math.max(AGAIN, TIMES * took));
  const asked = useAsked(`report ${props.run} ${version}`, (signal) => {
    const begun = Date.now();
    setTook(Infinity);
    return text(`/api/runs/${encodeURIComponent(props.run)}/report`, signal).finally(() => setTook(Date.now() - begun));
  }, true);
  return asked.value === undefined ? <Waiting asked={asked} /> : <Fragment html={asked.value} />;
}

/** Latency by percentile with a logarithmic tail: 90, 99, 99.9 ... are equally spaced. One curve for each load. */
function Latencies(props: { run: string; of: Data["latencies"] }) {
  const some = props.of.slice(0, HUES.length);
  const key = some.map((l) => l.trial).join();
  const asked = useAsked(`latency ${props.run} ${key}`, (signal) => Promise.all(some.map((l) =>
    get<{ percentile: number; ns: number }[]>(`/api/runs/${encodeURIComponent(props.run)}/latency?trial=${l.trial}&case=${encodeURIComponent(l.test_case)}`, signal))));
  if (!some.length) return null;
  if (!asked.value) return <Waiting asked={asked} />;
  const nines = (p: number) => Math.min(6, -Math.log10(Math.max(1e-6, 1 - p / 100)));
  const most = Math.max(...asked.value.flatMap((curve) => curve.map((p) => p.ns)));
  const last = Math.max(1, ...asked.value.flatMap((curve) => curve.filter((p) => p.percentile < 100).map((p) => nines(p.percentile))));
  const names = [0, 90, 99, 99.9, 99.99, 99.999, 99.9999].slice(0, Math.ceil(last) + 1);
  return (
    <figure>
      <h3>Latency</h3>
      <Axes label={`Latency by percentile at ${some.map((l) => pps(l.offered_load_pps)).join(", ")}`} most={most} xs={[0, last]} yName={time} xTitle="percentile"
        xTicks={names.map((p) => ({ at: nines(p), name: `${p} %` })).filter((tick) => tick.at <= last)}
        draw={({ x, y }) => asked.value!.map((curve, n) => {
          const points = curve.filter((p) => p.percentile < 100);
          const end = points[points.length - 1];
          return (
            <g key={n}>
              <path class={`line ${HUES[n]}`} d={points.map((p, i) => `${i ? "L" : "M"}${x(nines(p.percentile)).toFixed(1)} ${y(p.ns).toFixed(1)}`).join("")} />
              {end && <Dot x={x(nines(end.percentile))} y={y(end.ns)} n={n} title={`${pps(some[n].offered_load_pps)}: ${end.percentile} % within ${time(end.ns)}`} />}
            </g>
          );
        })} />
      <figcaption>{some.map((l, n) => <span key={l.trial}><span class={`key ${HUES[n]}`} /> {pps(l.offered_load_pps)} (trial {l.trial}) </span>)}</figcaption>
    </figure>
  );
}
