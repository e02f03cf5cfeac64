// Formats numbers for people: in a suitable unit, and bit rates with their layer.

const STEPS: [number, string][] = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

function scaled(value: number, unit: string): string {
  for (const [step, prefix] of STEPS) {
    if (Math.abs(value) >= step) return `${digits(value / step)} ${prefix}${unit}`;
  }
  return `${digits(value)} ${unit}`;
}

/** Four significant digits. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, Math.min(6, 3 - size)) });
}

/** A time in nanoseconds. */
export function time(ns: number): string {
  if (ns >= 1e9) return `${digits(ns / 1e9)} s`;
  if (ns >= 1e6) return `${digits(ns / 1e6)} ms`;
  if (ns >= 1e3) return `${digits(ns / 1e3)} µs`;
  return `${digits(ns)} ns`;
}

export const pps = (value: number) => scaled(value, "pps");
export const percent = (ratio: number) => `${digits(ratio * 100)} %`;

/** 2026-11-21 08:50:12, in UTC. */
export const moment = (text: string | null | undefined) => (text ? text.slice(0, 19).replace("T", " ") : "-");

/** A duration in seconds, rounded for reading. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** Round numbers for an axis, from 0 to at least `most`. */
export function ticks(most: number, wanted = 5): number[] {
  if (!(most > 0)) return [0, 1];
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? 10 * power;
  const count = Math.ceil(most / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, n) => n * step);
}
