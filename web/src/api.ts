// The API of the server. Types contain only the fields that pages show; docs/reference/dashboard.md and the JSON schemas have the rest.

export interface Line {
  id: string; kind: string; name: string; bed: string; state: string | null; started_at: string; measured_at: string | null; finished_at: string | null;
  mark: string | null; result: string; problem: string | null; tags: string[]; note: string | null;
}
export interface Info {
  id: string; kind: string; state: string; started_at: string; finished_at?: string; command_line: string[]; seed: number;
  tool_version: string; error?: string; parameters: Record<string, unknown>; facts: Record<string, unknown>;
}
export interface Flame { case: string; boot: number; of: string }
export interface Run {
  info: Info; problems: string[]; labels: { tags: string[]; note?: string }; has_result: boolean; flames: Flame[];
}
export interface Compared {
  metrics: string[]; labels: string[]; by: string | null; html: string; text: string; ministat: string; outcome: { metric: string };
}
export interface Trend { families: string[]; of: string; metrics: string[]; metric: string | null; html: string | null }

const KEY = "fwdlab-token";

/** The token of a link with `#token=`; it is removed from the address bar. */
export async function takeToken(): Promise<void> {
  const found = /(?:^#|&)token=([^&]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
    history.replaceState(null, "", location.pathname + location.search);
  }
  const kept = token();
  // on other machines, reading needs a cookie, which the token obtains
  if (kept) await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${kept}` } });
}

export const token = () => sessionStorage.getItem(KEY);

/** Sends a request; throws the message of the server if it fails. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answer(path, { signal })).json() as Promise<T>;
}

export async function text(path: string, signal?: AbortSignal): Promise<string> {
  return (await answer(path, { signal })).text();
}

export async function steer(run: string, request: string): Promise<void> {
  const headers = { Authorization: `Bearer ${token() ?? ""}` };
  await answer(`/api/runs/${encodeURIComponent(run)}/steer`, { method: "POST", headers, body: JSON.stringify({ request }) });
}

async function answer(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(path, init);
  if (response.ok) return response;
  const said = await response.text();
  let why = said;
  try {
    why = JSON.parse(said).error ?? said;
  } catch {
    // not JSON: plain text
  }
  throw new Error(why || `the server answered ${response.status}`);
}
