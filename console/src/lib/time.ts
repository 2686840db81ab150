import { signal } from "@preact/signals";

/** now ticks each second, for all times that are shown. */
export const now = signal(Date.now());

/** tick starts the clock, and returns what stops it. */
export function tick(): () => void {
  const timer = setInterval(() => (now.value = Date.now()), 1000);
  return () => clearInterval(timer);
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** duration returns a time span in its two largest units, such as "2 h 10 min". */
export function duration(ms: number): string {
  const parts = (value: number, unit: number, name: string, smaller: number, smallerName: string): string => {
    const rest = Math.floor((value % unit) / smaller);
    return `${Math.floor(value / unit)} ${name}` + (rest === 0 ? "" : ` ${rest} ${smallerName}`);
  };
  if (ms < minute) {
    return `${Math.floor(ms / second)} s`;
  }
  if (ms < hour) {
    return `${Math.floor(ms / minute)} min`;
  }
  return ms < day ? parts(ms, hour, "h", minute, "min") : parts(ms, day, "d", hour, "h");
}

/** precise returns a time span in its two largest units, seconds too, such as "1 min 12 s". */
export function precise(ms: number): string {
  if (ms < minute || ms >= hour) {
    return duration(ms);
  }
  const seconds = Math.floor((ms % minute) / second);
  return `${Math.floor(ms / minute)} min` + (seconds === 0 ? "" : ` ${seconds} s`);
}

/** relative returns a time as seen from now. Clocks of servers and browsers differ a little: up to 2 s are "now". */
export function relative(time: string, at: number): string {
  const past = at - Date.parse(time);
  if (Math.abs(past) < 2 * second) {
    return "now";
  }
  return past > 0 ? `${duration(past)} ago` : `in ${duration(-past)}`;
}

const two = (n: number): string => n.toString().padStart(2, "0");

/** clock returns the time of the day, in the time zone of the browser. */
export function clock(time: string): string {
  const t = new Date(time);
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}

/** date returns the day, in the time zone of the browser. */
export function date(time: string): string {
  const t = new Date(time);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
}

/** absolute returns day, time and time zone. */
export function absolute(time: string): string {
  const offset = -new Date(time).getTimezoneOffset();
  const zone = offset === 0 ? "UTC" : `UTC${offset > 0 ? "+" : "−"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${date(time)} ${clock(time)} ${zone}`;
}
