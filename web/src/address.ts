// What is shown stands in the address: a link shows another what one sees.
import { useEffect, useState } from "preact/hooks";

const heard = new Set<() => void>();
addEventListener("popstate", () => heard.forEach((tell) => tell()));

/** Goes there. Small changes of what is shown replace the address; others can be gone back from. */
export function go(to: string, replace = false): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  heard.forEach((tell) => tell());
}

export function useAddress(): URL {
  const [url, set] = useState(location.href);
  useEffect(() => {
    const tell = () => set(location.href);
    heard.add(tell);
    return () => void heard.delete(tell);
  }, []);
  return new URL(url);
}

/** The address with these words of its query changed; an empty one is left out. */
export function changed(url: URL, words: Record<string, string>): string {
  const next = new URL(url);
  for (const [key, value] of Object.entries(words)) {
    if (value) next.searchParams.set(key, value);
    else next.searchParams.delete(key);
  }
  return next.pathname + next.search;
}
