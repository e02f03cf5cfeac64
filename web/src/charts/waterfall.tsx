// The fate of the frames of a test case: from the offered load to the received frames, with each loss by its place.
import type { Trial } from "../api";
import { frames, percent } from "../format";
import { Scroll } from "../parts";

const WIDE = 720;
const ROW = 26;

const PLACES: Record<string, string> = {
  dut_input: "lost at the DUT's input",
  dut_inside: "dropped inside the DUT",
  dut_output: "lost at the DUT's output",
  receiver: "lost at the receiver",
};

export function Waterfall(props: { trials: Trial[] }) {
  const trials = props.trials.filter((t) => !t.control);
  if (!trials.length) return null;
  const sum = (of: (t: Trial) => number) => trials.reduce((all, t) => all + of(t), 0);
  const sent = sum((t) => t.frames_sent);
  const missed = sum((t) => t.frames_not_sent ?? 0);
  const places = new Map<string, number>();
  for (const loss of trials.flatMap((t) => t.losses ?? [])) {
    places.set(loss.place, (places.get(loss.place) ?? 0) + loss.frames);
  }
  const unexplained = sum((t) => t.frames_unexplained ?? 0);
  if (unexplained) places.set("not explained by any counter", unexplained);
  const all = sent + missed;
  if (!all) return null;
  let left = all;
  const steps = [
    { name: "intended", from: 0, to: all, loss: false },
    ...(missed ? [{ name: "not sent by the generator", from: all - missed, to: all, loss: true }] : []),
    ...[...places].filter(([, n]) => n).map(([place, n], i) => {
      if (i === 0) left = sent;
      const step = { name: PLACES[place] ?? place.replaceAll("_", " "), from: left - n, to: left, loss: true };
      left -= n;
      return step;
    }),
    { name: "received", from: 0, to: sum((t) => t.frames_received), loss: false },
  ];
  const x = (n: number) => 220 + (Math.max(0, n) / all) * (WIDE - 410);
  const summary = steps.map((s) => `${s.name}: ${frames(s.to - s.from)}`).join("; ");
  return (
    <Scroll label="Chart">
    <svg class="chart" viewBox={`0 0 ${WIDE} ${steps.length * ROW + 6}`} role="img" aria-label={`Frames of ${trials.length} trials. ${summary}`}>
      {steps.map((step, n) => (
        <g key={step.name}>
          <text class="tick" x={214} y={n * ROW + 18} text-anchor="end">{step.name}</text>
          <rect class={step.loss ? "bar orange" : "bar blue"} x={x(step.from)} width={Math.max(1, x(step.to) - x(step.from))} y={n * ROW + 6} height={16} />
          <text class="value" x={x(step.to) + 6} y={n * ROW + 18}>
            {step.loss ? "−" : ""}{frames(step.to - step.from)} ({percent((step.to - step.from) / all)})
          </text>
        </g>
      ))}
    </svg>
    </Scroll>
  );
}
