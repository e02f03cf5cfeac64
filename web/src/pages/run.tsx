// One run: its report; what it does while it is in progress; its trials and events.
import { get, steer, text, token, type Run as Data } from "../api";
import { span } from "../format";
import { type Live, useLive } from "../live";
import { Fragment, Link, Scroll, State, Tags, Waiting, useAsked, useSlowly } from "../parts";
import { useState } from "preact/hooks";

const SHOWN = 100;

/** The least time between two readings of what the server renders of a run in progress, in milliseconds. */
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
  const load = useRendered(`/api/runs/${encodeURIComponent(props.run)}/load`, `${live.windows}`, false);
  return (
    <section aria-labelledby="now">
      <h2 id="now">Now {live.connected ? "" : <span class="error" role="status">no connection to the server; reconnecting</span>}</h2>
      <p role="status" aria-live="off">{live.paused && <strong>Paused. </strong>}{live.activity || "starting"}{live.estimate && `, ${live.estimate}`}</p>
      <progress max={Math.max(1, live.steps)} value={live.done} aria-label="steps done" />{" "}
      {live.done} of {live.steps}, about {span(live.left)} left; {live.trials} trials, {live.invalid} invalid
      {load.value && <Fragment html={load.value} />}
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
  const { info, has_result, problems, flames, labels } = props.data;
  // a run of one turn has no iteration before its end
  const measured = info.parameters.order === "together" ? props.live.trials : props.live.iterations;
  return (
    <>
      <p class="quiet"><State state={info.state} />{!has_result && <> <code>{info.id}</code></>}
        {" · "}<a href={`/runs/${encodeURIComponent(info.id)}/report`}>As one file</a>
        {" · "}<Link to={`/compare?run=${encodeURIComponent(info.id)}`}>Compare</Link>
        {flames.length > 0 && <>{" · "}<Link to={`/flame?run=${encodeURIComponent(info.id)}`}>Flame graphs</Link></>}</p>
      {(labels.tags.length > 0 || labels.note) && <p class="note"><Tags tags={labels.tags} /> {labels.note}</p>}
      {problems.map((problem) => <p class="error" key={problem}>{problem}</p>)}
      {has_result || measured > 0
        ? <Report run={info.id} version={info.finished_at ?? `${measured} measured`} ended={info.state !== "running"} />
        : <h1>{info.error ?? "No result yet"}</h1>}
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
  const asked = useRendered(`/api/runs/${encodeURIComponent(props.run)}/report`, props.version, props.ended);
  return asked.value === undefined ? <Waiting asked={asked} /> : <Fragment html={asked.value} />;
}

/** What the server renders of a run in progress, in its latest version. */
function useRendered(path: string, version: string, ended: boolean) {
  // infinite until the answer arrives: another request would abort this one, but not the work of the server
  const [took, setTook] = useState(Infinity);
  const shown = useSlowly(version, ended ? 0 : Math.max(AGAIN, TIMES * took));
  return useAsked(`${path} ${shown}`, (signal) => {
    const begun = Date.now();
    setTook(Infinity);
    return text(path, signal).finally(() => setTook(Date.now() - begun));
  }, true);
}
