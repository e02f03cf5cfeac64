// The axes of charts, from zero to round numbers, in the units of the data.
import type { ComponentChildren } from "preact";
import { ticks } from "../format";
import { Scroll } from "../parts";

export const WIDE = 720;
export const LEFT = 78;
export const RIGHT = 34;
export const TOP = 10;
export const BOTTOM = 34;

export const HUES = ["blue", "orange", "green", "purple", "sky", "red"];

export interface Frame { x: (v: number) => number; y: (v: number) => number; height: number }

/** A chart over a numeric x axis. `label` describes it for screen readers. */
export function Axes(props: {
  label: string; height?: number; xs: [number, number]; most: number; yName: (v: number) => string;
  xTicks: { at: number; name: string }[]; draw: (frame: Frame) => ComponentChildren; xTitle?: string;
}) {
  const height = props.height ?? 260;
  const marks = ticks(props.most);
  const top = marks[marks.length - 1];
  const [from, to] = props.xs;
  const x = (v: number) => LEFT + ((v - from) / (to - from || 1)) * (WIDE - LEFT - RIGHT);
  const y = (v: number) => height - BOTTOM - (v / top) * (height - TOP - BOTTOM);
  return (
    <Scroll label="Chart">
    <svg class="chart" viewBox={`0 0 ${WIDE} ${height}`} role="img" aria-label={props.label}>
      {marks.map((mark) => (
        <g key={mark}>
          <line class="grid" x1={LEFT} x2={WIDE - RIGHT} y1={y(mark)} y2={y(mark)} />
          <text class="tick" x={LEFT - 6} y={y(mark) + 4} text-anchor="end">{props.yName(mark)}</text>
        </g>
      ))}
      {props.xTicks.map((tick) => (
        <text key={tick.at} class="tick" x={x(tick.at)} y={height - BOTTOM + 16} text-anchor="middle">{tick.name}</text>
      ))}
      {props.xTitle && <text class="tick" x={(LEFT + WIDE - RIGHT) / 2} y={height - 3} text-anchor="middle">{props.xTitle}</text>}
      {props.draw({ x, y, height })}
    </svg>
    </Scroll>
  );
}

/** Shapes that can be told apart without colour. */
export function Dot(props: { x: number; y: number; n: number; title: string }) {
  const { x, y, n } = props;
  const hue = `mark ${HUES[n % HUES.length]}`;
  const shapes = [
    <circle cx={x} cy={y} r={4} />,
    <rect x={x - 3.5} y={y - 3.5} width={7} height={7} />,
    <path d={`M${x} ${y - 5}l4.5 8h-9z`} />,
    <path d={`M${x} ${y - 5}l5 5-5 5-5-5z`} />,
  ];
  return <g class={hue}><title>{props.title}</title>{shapes[n % shapes.length]}</g>;
}
