// A figure of all test cases: the median as a bar, each value as a dot, the interval as a whisker. Long names have their own line.
import type { TestCase } from "../api";
import { ticks, withUnit } from "../format";
import { Scroll } from "../parts";

const WIDE = 720;
const ROW = 44;

export function Cases(props: { cases: TestCase[]; figure: string }) {
  const rows = props.cases.flatMap((one) => {
    const figure = one.figures.find((f) => f.name === props.figure);
    return figure ? [{ one, figure }] : [];
  });
  if (!rows.length) return null;
  const unit = rows[0].figure.unit;
  const most = Math.max(...rows.flatMap(({ figure }) => [figure.median + (figure.interval_half_width ?? 0), ...figure.values]));
  const marks = ticks(most);
  const top = marks[marks.length - 1];
  const x = (v: number) => 8 + (v / top) * (WIDE - 90);
  const height = rows.length * ROW + 26;
  const label = `${props.figure}: ` + rows.slice(0, 12).map(({ one, figure }) => `${one.test_case} ${withUnit(figure.median, unit)}`).join("; ");
  return (
    <Scroll label="Chart">
    <svg class="chart" viewBox={`0 0 ${WIDE} ${height}`} role="img" aria-label={label}>
      {marks.map((mark) => (
        <g key={mark}>
          <line class="grid" x1={x(mark)} x2={x(mark)} y1={4} y2={height - 20} />
          <text class="tick" x={x(mark)} y={height - 6} text-anchor={mark ? "middle" : "start"}>{withUnit(mark, unit)}</text>
        </g>
      ))}
      {rows.map(({ one, figure }, n) => {
        const y = n * ROW + 30;
        const half = figure.interval_half_width ?? 0;
        return (
          <g key={one.test_case}>
            <text class="name" x={8} y={y - 10}>{one.test_case.slice(0, 90)}</text>
            <rect class="bar blue" x={x(0)} width={Math.max(1, x(figure.median) - x(0))} y={y - 5} height={14} />
            {half > 0 && <path class="whisker" d={`M${x(Math.max(0, figure.median - half))} ${y + 2}H${x(figure.median + half)}`} />}
            {figure.values.map((value, i) => (
              <circle key={i} class="mark orange" cx={x(value)} cy={y + 2} r={3}><title>{withUnit(value, unit)}</title></circle>
            ))}
            <text class="value" x={x(Math.max(figure.median + half, ...figure.values)) + 8} y={y + 6}>{withUnit(figure.median, unit)}</text>
          </g>
        );
      })}
    </svg>
    </Scroll>
  );
}
