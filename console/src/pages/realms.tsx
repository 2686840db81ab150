import { useEffect } from "preact/hooks";
import { sessions } from "../app.ts";
import type { Session } from "../api/types.ts";
import { replace } from "../lib/go.ts";
import { overviewPath } from "../lib/paths.ts";
import { visible } from "../lib/text.ts";
import { Link } from "../ui/link.tsx";
import { Notice } from "../ui/parts.tsx";
import { StateMark } from "../ui/state.tsx";
import { Table } from "../ui/table.tsx";
import { View } from "../ui/view.tsx";

/** Home leads to the only realm, or to the list. */
export function Home({ session }: { session: Session }) {
  const realms = session.realms ?? [];
  const only = realms.length === 1 ? realms[0] : undefined;
  useEffect(() => replace(only === undefined ? "/realms" : overviewPath(only.name)), [only]);
  return <main id="main" />;
}

const states: Record<string, string> = { active: "Active", deleting: "Deleting", deleted: "Deleted" };

export function RealmsPage({ session }: { session: Session }) {
  const realms = session.realms ?? [];
  // The list is that of the sign-in until it is read; if it cannot be read, the connection bar says why.
  useEffect(() => void sessions.refresh().catch(() => undefined), []);
  return (
    <View title="Realms" of="realms">
      {realms.length === 0 ? (
        <Notice tone="info">
          <p>
            <strong>{visible(session.user)} can open no realm.</strong> An administrator gives the user permissions for a realm in the users
            file; then sign in again.
          </p>
        </Notice>
      ) : (
        <Table
          label="Realms"
          rows={realms}
          rowKey={(r) => r.name}
          columns={[
            { head: "Realm", width: "30%", cell: (r) => <Link href={overviewPath(r.name)}>{visible(r.name)}</Link>, main: true },
            { head: "State", width: "20%", cell: (r) => <StateMark state={states[r.state ?? ""] ?? "Unseen"} /> },
            { head: "Writer", width: "50%", cell: (r) => (r.writer ? visible(r.writer) : <span class="dim">none or not known</span>), full: true },
          ]}
          note={(r) => (r.waiting ? <>The deletion waits for {visible(r.waiting)}</> : undefined)}
        />
      )}
    </View>
  );
}
