// The rows of long tables in reports: a block of the page contains all of them, compressed. This file
// is a script of every one-file report that has such a table, and a part of the dashboard.

/** Shows one page of rows at a time in all such tables under `root`. */
export function turnPages(root: ParentNode) {
  root.querySelectorAll<HTMLElement>(".pages:not([data-page])").forEach(turn);
}

function turn(place: HTMLElement) {
  const block = place.querySelector("script")!.textContent!;
  const body = place.previousElementSibling!.querySelector("tbody")!;
  let pages: Promise<string[]> | undefined;
  const show = async (asked: number) => {
    pages ??= inflated(block);
    const all = await pages;
    const page = Math.min(Math.max(1, Math.round(asked) || 1), all.length);
    body.innerHTML = all[page - 1];
    number.value = place.dataset.page = String(page);
    back.disabled = page === 1;
    on.disabled = page === all.length;
  };
  const button = (words: string, by: number) => {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = words;
    one.onclick = () => show(number.valueAsNumber + by);
    return one;
  };
  const [back, on] = [button("Previous", -1), button("Next", 1)];
  const number = document.createElement("input");
  Object.assign(number, { type: "number", min: "1", max: place.dataset.pages, value: "1", onchange: () => show(number.valueAsNumber) });
  const label = document.createElement("label");
  label.append("Page ", number, ` of ${place.dataset.pages}`);
  back.disabled = true;
  place.dataset.page = "1";
  place.replaceChildren(back, " ", label, " ", on);
  // the page of a run in progress was at this page
  if (Number(place.dataset.shown) > 1) show(Number(place.dataset.shown));
}

async function inflated(block: string): Promise<string[]> {
  const bytes = Uint8Array.from(atob(block), (one) => one.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return (await new Response(text).text()).split("\f");
}
