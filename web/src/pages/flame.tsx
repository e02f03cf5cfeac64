// The flame graph of a test case, and its difference from another of the same run.
import { changed, go, useAddress } from "../address";
import { get, text, type Flame as Named, type Run } from "../api";
import { FlameGraph } from "../charts/flame";
import { Choice, Link, Waiting, runAt, useAsked } from "../parts";

const name = (flame: Named) => `${flame.case}, ${flame.of}${flame.boot ? `, boot ${flame.boot}` : ""}`;

export function Flame() {
  const url = useAddress();
  const of = (key: string) => url.searchParams.get(key) ?? "";
  const run = of("run");
  const at = `/api/runs/${encodeURIComponent(run)}`;
  const kept = useAsked(`flames ${run}`, (signal) => get<Run>(at, signal));
  const flames = kept.value?.flames ?? [];
  const chosen = flames.find((f) => f.case === of("case") && String(f.boot) === (of("boot") || "0") && f.of === of("of")) ?? flames[0];
  const other = flames.find((f) => name(f) === of("against"));
  const read = (flame: Named, signal: AbortSignal) =>
    text(`${at}/flame?${new URLSearchParams({ case: flame.case, boot: String(flame.boot), of: flame.of })}`, signal);
  const asked = useAsked(`stacks ${chosen && name(chosen)} ${other && name(other)}`, async (signal) =>
    chosen ? [await read(chosen, signal), other ? await read(other, signal) : null] as const : null);
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  return (
    <>
      <h1>Flame graph</h1>
      <p><Link to={runAt(run)}>{run}</Link></p>
      {!kept.value ? <Waiting asked={kept} /> : !chosen ? <p>This run has no profile: fwdlab run with perf, or quick --vm, makes one.</p> : (
        <>
          <p class="tools">
            <Choice label="Of" value={name(chosen)} values={flames.map(name)} on={(v) => {
              const next = flames.find((f) => name(f) === v)!;
              show({ case: next.case, boot: String(next.boot), of: next.of, at: "" });
            }} />{" "}
            <Choice label="against" value={other ? name(other) : "nothing"} values={["nothing", ...flames.filter((f) => f !== chosen).map(name)]} on={(v) => show({ against: v === "nothing" ? "" : v })} />
          </p>
          {!other && <p class="quiet">Grey: functions of other programs, after @.</p>}
          {other && <p class="quiet">Compared are shares: orange and + is more than in the other, blue and − less.</p>}
          {asked.value ? <FlameGraph folded={asked.value[0]} other={asked.value[1]} unit={chosen.of === "samples" ? "samples" : "instructions"} at={of("at")} to={(path) => show({ at: path })} /> : <Waiting asked={asked} />}
        </>
      )}
    </>
  );
}
