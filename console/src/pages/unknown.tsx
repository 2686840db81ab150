import type { Session } from "../api/types.ts";
import { overviewPath } from "../lib/paths.ts";
import { visible } from "../lib/text.ts";
import { Link } from "../ui/link.tsx";
import { View } from "../ui/view.tsx";

/** UnknownPage is for URLs that no view has. */
export function UnknownPage({ path }: { path: string }) {
  return (
    <View title="No such page" of={`unknown ${path}`}>
      <p>
        No view has the address <code>{visible(path)}</code>. Check it, or begin at <Link href="/">the overview</Link>.
      </p>
    </View>
  );
}

/** UnknownRealm is for realms that a person cannot open. */
export function UnknownRealm({ realm, session }: { realm: string; session: Session }) {
  const realms = session.realms ?? [];
  return (
    <View title="No such realm" of={`realm ${realm}`}>
      <p>
        There is no realm <strong>{visible(realm)}</strong>, or {visible(session.user)} may not open it.
      </p>
      {realms.length > 0 && (
        <>
          <p>Realms that you can open:</p>
          <ul class="plain">
            {realms.map((r) => (
              <li key={r.name}>
                <Link href={overviewPath(r.name)}>{visible(r.name)}</Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </View>
  );
}
