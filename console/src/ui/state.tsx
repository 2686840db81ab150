import { Icon, type IconName } from "./icons.tsx";

interface Look {
  icon: IconName;
  tone: string;
  word: string;
}

/** Looks of the states of objects, consumers, realms and services. */
const looks: Record<string, Look> = {
  Present: { icon: "present", tone: "good", word: "Present" },
  Active: { icon: "present", tone: "good", word: "Active" },
  Terminating: { icon: "terminating", tone: "wait", word: "Terminating" },
  Blocked: { icon: "blocked", tone: "bad", word: "Blocked" },
  Protected: { icon: "protected", tone: "info", word: "Protected" },
  UnknownOwner: { icon: "unknown", tone: "odd", word: "Unknown owner" },
  Garbage: { icon: "garbage", tone: "odd", word: "Garbage" },
  Absent: { icon: "absent", tone: "dim", word: "Absent" },
  Removed: { icon: "removed", tone: "dim", word: "Removed" },
  None: { icon: "plug", tone: "bad", word: "No consumer" },
  Alive: { icon: "check", tone: "good", word: "Alive" },
  Busy: { icon: "terminating", tone: "wait", word: "Busy" },
  Failing: { icon: "warning", tone: "bad", word: "Failing" },
  Silent: { icon: "error", tone: "bad", word: "Silent" },
  Unseen: { icon: "unknown", tone: "dim", word: "Not known" },
  Deleting: { icon: "terminating", tone: "wait", word: "Deleting" },
  Deleted: { icon: "removed", tone: "dim", word: "Deleted" },
  Ready: { icon: "check", tone: "good", word: "Ready" },
  Waiting: { icon: "terminating", tone: "wait", word: "Not ready" },
};

export function lookOf(state: string): Look {
  return looks[state] ?? { icon: "unknown", tone: "dim", word: state };
}

/** StateMark shows a state by shape, colour and word. */
export function StateMark({ state, badge = false }: { state: string; badge?: boolean }) {
  const { icon, tone, word } = lookOf(state);
  return (
    <span class={badge ? `state badge tone-${tone}` : "state"}>
      <Icon name={icon} tone={tone} />
      <span>{word}</span>
    </span>
  );
}
