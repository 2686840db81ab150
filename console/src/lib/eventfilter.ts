import type { EventFilter, Ref } from "../api/types.ts";

/** Choices are those of the events page, as they are in its URL. All are texts: a URL may have anything. */
export interface Choices {
  resource?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  actor?: string;
  cause?: string;
  /** since is a time in RFC 3339, or how long ago, such as 2h. */
  since?: string;
  until?: string;
}

export const choiceNames = ["resource", "namespace", "name", "uid", "actor", "cause", "since", "until"] as const;

/** choicesOf returns what the query of a URL chooses. */
export function choicesOf(search: string): Choices {
  const query = new URLSearchParams(search);
  const choices: Choices = {};
  for (const name of choiceNames) {
    const value = query.get(name)?.trim();
    if (value) {
      choices[name] = value;
    }
  }
  return choices;
}

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** timeOf returns a time of which a text may say how long ago it is. Other texts stay: the server says what is wrong with them. */
function timeOf(text: string, now: number): string {
  const ago = /^(\d{1,6})([smhd])$/.exec(text);
  return ago === null ? text : new Date(now - Number(ago[1]) * (units[ago[2] ?? ""] ?? 0)).toISOString();
}

/** absoluteTimes returns choices without relative times. */
export function absoluteTimes(choices: Choices, now: number): Choices {
  return {
    ...choices,
    ...(choices.since === undefined ? {} : { since: timeOf(choices.since, now) }),
    ...(choices.until === undefined ? {} : { until: timeOf(choices.until, now) }),
  };
}

/** filterOf returns the filter for the live connection. The server has accepted the choices, whose times are absolute. */
export function filterOf({ cause, ...rest }: Choices): EventFilter {
  return { ...rest, ...(cause === undefined ? {} : { cause: Number(cause) }) };
}

/** objectText writes the object that choices name: resource/namespace/name, or resource/name. */
export function objectText({ resource, namespace, name }: Choices): string {
  return resource === undefined || name === undefined ? "" : [resource, ...(namespace === undefined ? [] : [namespace]), name].join("/");
}

/** objectChoices is the inverse of objectText; undefined if the text names no object. */
export function objectChoices(text: string): Choices | undefined {
  const parts = text.trim().split("/");
  const [resource = "", second = "", third] = parts;
  if (parts.length > 3 || resource === "" || second === "" || third === "") {
    return undefined;
  }
  return third === undefined ? { resource, name: second } : { resource, namespace: second, name: third };
}

/** ofObject are the choices for the events of one object. */
export function ofObject({ resource, namespace, name, uid }: Ref): Choices {
  return { resource, name, ...(namespace === undefined ? {} : { namespace }), ...(uid === undefined ? {} : { uid }) };
}

/** localTime returns a time for a field of the type datetime-local, in the time zone of the browser; "" for what is no time. */
export function localTime(text: string | undefined): string {
  const time = new Date(text ?? "");
  if (text === undefined || Number.isNaN(time.getTime())) {
    return "";
  }
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** fromLocalTime is the inverse of localTime; undefined for an empty field. */
export function fromLocalTime(text: string): string | undefined {
  const time = new Date(text);
  return text === "" || Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}
