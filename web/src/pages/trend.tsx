// A figure over all runs, with its changes and what else differed there.
import { changed, go, useAddress } from "../address";
import { get, type Trend as Data } from "../api";
import { Choice, Fragment, Waiting, useAsked } from "../parts";

export function Trend() {
  const url = useAddress();
  const of = url.searchParams.get("of") ?? "";
  const metric = url.searchParams.get("metric") ?? "";
  const asked = useAsked(`trend ${of} ${metric}`, (signal) => get<Data>(`/api/trend?${new URLSearchParams({ of, metric })}`, signal), true);
  const show = (words: Record<string, string>) => go(changed(url, words), true);
  const data = asked.value;
  if (!data) return <><h1>Trend</h1><Waiting asked={asked} /></>;
  return (
    <>
      {data.html ? <Fragment html={data.html} /> : <><h1>Trend</h1><p>A trend takes two runs of the same kind or campaign.</p></>}
      {data.families.length > 0 && (
        <p class="tools">
          <Choice label="Runs of" value={data.of} values={data.families} on={(v) => show({ of: v, metric: "" })} />{" "}
          {data.metric && <Choice label="Metric" value={data.metric} values={data.metrics} on={(v) => show({ metric: v })} />}
        </p>
      )}
    </>
  );
}
