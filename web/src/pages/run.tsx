// One run: its figures, the fate of its frames, the load of its DUT, its events; live while it is in progress.
import { changed, go, useAddress } from "../address";
import { get, steer, token, type Run as Data, type TestCase, type Trial } from "../api";
import { Axes, Dot, HUES } from "../charts/axes";
import { Cases } from "../charts/cases";
import { Loads } from "../charts/heat";
import { Waterfall } from "../charts/waterfall";
import { frames, moment, percent, pps, span, ticks, time, withUnit } from "../format";
import { type Live, useLive } from "../live";
import { Choice, Link, Scroll, State, Tags, Waiting, useAsked } from "../parts";
import { useState } from "preact/hooks";

const SHOWN = 100;

export function Run(props: { id: string }) {
  const live = useLive(props.id);
  // the stored run is read again when it has ended
  const asked = useAsked(`run ${props.id} ${live.ended}`, (signal) => get<Data>(`/api/runs/${encodeURIComponent(props.id)}`, signal));
  return (
    <div data-events={live.events}>
      <h1>{props.id}</h1>
      {!live.ended && <Going run={props.id} live={live} />}
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
  const { info, summary, trials, problems, flames, latencies, labels, charts } = props.data;
  const url = useAddress();
  const cases = summary?.test_cases ?? [];
  const wanted = url.searchParams.get("case") ?? "";
  const names = cases.map((one) => one.test_case);
  const one = cases.find((c) => c.test_case === wanted) ?? cases[0];
  const figures = [...new Set(cases.flatMap((c) => c.figures.map((f) => f.name)))];
  const wantedFigure = url.searchParams.get("figure") ?? "";
  const figure = figures.includes(wantedFigure) ? wantedFigure : figures[0];
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  return (
    <>
      <p><State state={info.state} /> {info.kind}, {moment(info.started_at)} to {moment(info.finished_at)} UTC, fwdlab {info.tool_version}, seed {info.seed}
        {" · "}<a href={`/runs/${encodeURIComponent(info.id)}/report`}>Report, one page</a>
        {" · "}<Link to={`/compare?run=${encodeURIComponent(info.id)}`}>Compare</Link></p>
      {(labels.tags.length > 0 || labels.note) && <p class="note"><Tags tags={labels.tags} /> {labels.note}</p>}
      {info.error && <p class="error" role="alert">{info.error}</p>}
      {problems.map((problem) => <p class="error" key={problem}>{problem}</p>)}
      {summary?.noise?.too_noisy && <p class="doubt"><strong>Doubt:</strong> {summary.noise.verdict}</p>}
      {summary?.warnings?.map((warning) => <p class="doubt" key={warning}>{warning}</p>)}
      {figure && (
        <section aria-labelledby="figures">
          <h2 id="figures">Figures</h2>
          {figures.length > 1 && <p><Choice label="Figure" value={figure} values={figures} on={(v) => show({ figure: v })} /></p>}
          <Cases cases={cases} figure={figure} />
          <p class="quiet">Bars are medians, dots the values of iterations, lines the 95 % interval of the mean.</p>
          <Scroll label="Figures by test case">
            <table>
              <thead><tr><th scope="col">Test case</th>{figures.map((f) => <th scope="col" class="n" key={f}>{f}</th>)}<th scope="col">Doubt</th></tr></thead>
              <tbody>{cases.map((c) => (
                <tr key={c.test_case}>
                  <th scope="row">{c.test_case}</th>
                  {figures.map((f) => {
                    const found = c.figures.find((x) => x.name === f);
                    return <td class="n" key={f}>{found ? withUnit(found.median, found.unit) : "-"}{found?.interval_half_width !== undefined && <span class="quiet"> ± {withUnit(found.interval_half_width, found.unit)}</span>}</td>;
                  })}
                  <td>{c.doubt ?? ""}</td>
                </tr>
              ))}</tbody>
            </table>
          </Scroll>
        </section>
      )}
      {charts.length > 0 && (
        <section aria-labelledby="charts">
          <h2 id="charts">Charts of the report</h2>
          {charts.map((chart) => (
            <Scroll key={chart.name} label={chart.name}>
              <img class="chart drawn" loading="lazy" alt={chart.spoken} src={`/api/runs/${encodeURIComponent(info.id)}/charts/${encodeURIComponent(chart.name)}.svg`} />
            </Scroll>
          ))}
        </section>
      )}
      {one && (
        <section aria-labelledby="case">
          <h2 id="case">Test case</h2>
          <p><Choice label="Test case" value={one.test_case} values={names} on={(v) => show({ case: v, trial: "" })} /></p>
          <Case one={one} trials={trials.filter((t) => t.test_case === one.test_case)} />
          <Latencies run={info.id} of={latencies.filter((l) => l.test_case === one.test_case)} />
          {flames.filter((f) => f.case === one.test_case).map((f) => (
            <p key={`${f.boot} ${f.of}`}><Link to={`/flame?run=${encodeURIComponent(info.id)}&case=${encodeURIComponent(f.case)}&boot=${f.boot}&of=${f.of}`}>Flame graph: {f.of}{f.boot ? `, boot ${f.boot}` : ""}</Link></p>
          ))}
        </section>
      )}
      <section aria-labelledby="events">
        <h2 id="events">Events</h2>
        {props.live.said.length === 0 ? <p class="quiet">Only trials.</p> : (
          <Scroll label="Events" low>
            <table><tbody>{props.live.said.slice(-SHOWN).map((said, n) => (
              <tr key={n}><td class="n time">{said.t.toFixed(1)} s</td><td>{said.kind}</td><td>{said.text}</td></tr>
            ))}</tbody></table>
          </Scroll>
        )}
      </section>
      <details>
        <summary>Settings and facts</summary>
        <pre tabIndex={0}>{JSON.stringify({ command_line: info.command_line, parameters: info.parameters, facts: info.facts }, null, 2)}</pre>
      </details>
    </>
  );
}

function Case(props: { one: TestCase; trials: Trial[] }) {
  const [all, showAll] = useState(false);
  const shown = all ? props.trials : props.trials.slice(0, SHOWN);
  return (
    <>
      {props.one.doubt && <p class="doubt">{props.one.doubt}</p>}
      {props.one.findings?.map((f) => <p class="finding" key={f.cause}><strong>Finding:</strong> {f.sentence.replace(/\.?$/, ".")} Check: {f.setting}</p>)}
      {props.trials.length > 0 && <><h3>Where the frames went</h3><Waterfall trials={props.trials} /></>}
      <h3>Load of the DUT</h3>
      <Loads one={props.one} />
      {props.trials.length > 0 && (
        <details>
          <summary>{props.trials.length} trials</summary>
          <Scroll label="Trials">
            <table>
              <thead><tr><th scope="col" class="n">Trial</th><th scope="col" class="n">Iteration</th><th scope="col" class="n">Offered</th><th scope="col" class="n">Forwarded</th><th scope="col" class="n">Loss</th><th scope="col" class="n">Lost frames</th><th scope="col">Valid</th></tr></thead>
              <tbody>{shown.map((t) => (
                <tr key={t.trial} class={t.validity.reasons?.length ? "invalid" : ""}>
                  <td class="n">{t.trial}</td><td class="n">{t.iteration}</td><td class="n">{pps(t.offered_load_pps)}</td>
                  <td class="n">{pps(t.forwarding_rate_pps ?? t.forwarding_rate_ungated_pps ?? t.frames_received / t.duration_s)}</td>
                  <td class="n">{t.frame_loss_ratio === null ? "-" : percent(t.frame_loss_ratio)}</td><td class="n">{frames(t.frames_lost)}</td>
                  <td>{t.validity.reasons?.length ? t.validity.reasons.join("; ") : "yes"}</td>
                </tr>
              ))}</tbody>
            </table>
          </Scroll>
          {shown.length < props.trials.length && <button type="button" onClick={() => showAll(true)}>Show all {props.trials.length}</button>}
        </details>
      )}
    </>
  );
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
