// The test beds of all runs.
import { get } from "../api";
import { Fragment, Waiting, useAsked } from "../parts";

export function Beds() {
  const asked = useAsked("beds", (signal) => get<{ html: string }>("/api/beds", signal));
  return asked.value ? <Fragment html={asked.value.html} /> : <><h1>Test beds</h1><Waiting asked={asked} /></>;
}
