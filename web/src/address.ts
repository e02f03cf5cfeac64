// The state of a page is in its address, so that a link shows the same to others.
import { useEffect, useState } from "preact/hooks";

const listeners = new Set<() => void>();
addEventListener("popstate", () => listeners.forEach((listener) => listener()));

/** Opens an address. With `replace`, for small changes, it replaces the entry in the history. */
export function go(to: string, replace = false): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  listeners.forEach((listener) => listener());
}

export function useAddress(): URL {
  const [url, set] = useState(location.href);
  useEffect(() => {
    const listener = () => set(location.href);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return new URL(url);
}

/** The address with these query parameters changed; empty ones are removed. */
export function changed(url: URL, words: Record<string, string>): string {
  const next = new URL(url);
  for (const [key, value] of Object.entries(words)) {
    if (value) next.searchParams.set(key, value);
    else next.searchParams.delete(key);
  }
  return next.pathname + next.search;
}
