// A run in progress: its past events first, then new ones. The stored state is bounded however many events arrive, and the page is drawn once
// per frame.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Said { t: number; kind: string; text: string }

const SAID = 200;

/** Time before another attempt after the server has refused, in milliseconds. */
const AGAIN = 2000;

export class Live {
  connected = false;
  ended = false;
  trials = 0;
  invalid = 0;
  iterations = 0;
  activity = "";
  done = 0;
  steps = 0;
  left = 0;
  estimate = "";
  paused = false;
  events = 0;
  windows = 0;
  said: Said[] = [];

  say(t: number, kind: string, text: string): void {
    this.said.push({ t, kind, text });
    if (this.said.length > SAID) this.said.splice(0, this.said.length - SAID);
  }

  /** Applies an event; one of an unknown kind is only counted. */
  take(event: Record<string, any>): void {
    this.events += 1;
    const t = Number(event.t) || 0;
    switch (event.event) {
      case "run_started":
      case "run_resumed":
        this.steps = event.steps;
        this.left = event.estimate_s;
        this.say(t, "run", event.event === "run_started" ? "the run started" : "the run was resumed");
        break;
      case "progress":
        Object.assign(this, { activity: event.activity, done: event.done, steps: event.steps, left: event.left_s, estimate: event.estimate ?? "" });
        if (event.forwarding_rate_pps !== undefined) this.windows += 1;
        break;
      case "trial_finished": {
        const record = event.record ?? {};
        const reasons: string[] = record.validity?.reasons ?? [];
        this.trials += 1;
        if (reasons.length) {
          this.invalid += 1;
          this.say(t, "invalid", `trial ${record.trial} of ${record.test_case}: ${reasons.join("; ")}`);
        }
        break;
      }
      case "iteration_finished":
        this.iterations += 1;
        this.say(t, "iteration", `${event.test_case}, iteration ${event.iteration?.iteration}${event.iteration?.failure ? `: ${event.iteration.failure}` : ""}`);
        break;
      case "steered":
        if (event.heeded && event.request === "pause") this.paused = true;
        if (event.heeded && event.request === "resume") this.paused = false;
        this.say(t, "request", `${event.request}${event.heeded ? "" : ": ignored, nothing to do"}`);
        break;
      case "note":
      case "warning":
        this.say(t, event.event, String(event.text));
        break;
      case "run_finished":
        this.say(t, "run", "the run finished");
        break;
      case "run_ended":
        this.say(t, "run", `the run ended: ${event.reason}`);
        break;
    }
  }
}

/** Follows a run. After a lost connection, the browser reconnects and continues at the last event. */
export function useLive(run: string): Live {
  const live = useRef(new Live());
  const [, draw] = useState(0);
  useEffect(() => {
    let asked = 0;
    live.current = new Live();
    const soon = () => {
      asked ||= requestAnimationFrame(() => {
        asked = 0;
        draw((n) => n + 1);
      });
    };
    let source: EventSource;
    let last = "";
    let again = 0;
    const follow = () => {
      source = new EventSource(`/api/runs/${encodeURIComponent(run)}/events?after=${last || 0}`);
      source.onopen = () => {
        live.current.connected = true;
        soon();
      };
      source.onmessage = (message) => {
        last = message.lastEventId;
        const event = JSON.parse(message.data);
        // another journal, or this one from its first event
        if (event.event === "run_started") live.current = Object.assign(new Live(), { connected: true });
        live.current.take(event);
        soon();
      };
      source.onerror = () => {
        live.current.connected = false;
        // the browser reconnects by itself, but not after an answer such as 503
        if (source.readyState === EventSource.CLOSED) again = setTimeout(follow, AGAIN);
        soon();
      };
      source.addEventListener("end", () => {
        live.current.ended = true;
        source.close();
        soon();
      });
    };
    follow();
    soon();
    return () => {
      clearTimeout(again);
      source.close();
      cancelAnimationFrame(asked);
    };
  }, [run]);
  return live.current;
}
