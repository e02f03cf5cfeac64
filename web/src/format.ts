// Formats numbers, times and durations for people.

/** Four significant digits. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, Math.min(6, 3 - size)) });
}

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
