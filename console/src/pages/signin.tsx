import { useEffect, useRef, useState } from "preact/hooks";
import { sessions } from "../app.ts";
import { failureOf } from "../api/client.ts";
import type { Failure, SignIn, Ways } from "../api/types.ts";
import { visible } from "../lib/text.ts";
import { Logo } from "../ui/icons.tsx";
import { Notice, Problem } from "../ui/parts.tsx";
import { View } from "../ui/view.tsx";

/** SignInPage asks who a person is. The URL stays, so that the view that was asked for is shown afterwards. */
export function SignInPage({ ways, expired, failure }: { ways: Ways; expired: boolean; failure?: Failure | undefined }) {
  return (
    <div class="signin">
      <header class="brand">
        <Logo />
        <span>Coppice</span>
      </header>
      <View title="Sign in" of="signin">
        {expired && failure === undefined && (
          <Notice tone="wait" role="status">
            <p>
              <strong>Your session has ended.</strong> Sign in again; the view that you had is shown then.
            </p>
          </Notice>
        )}
        {failure !== undefined && <Problem what="The sign-in failed." failure={failure} />}
        {ways.local ? <Local /> : <Form />}
      </View>
      <footer class="dim version">Coppice {visible(ways.version)}</footer>
    </div>
  );
}

function Local() {
  return (
    <>
      <p>
        This console is part of <code>coppice up</code>. Open the address that <code>coppice up</code> printed in the terminal where it
        runs. It looks like this:
      </p>
      <pre class="sample">{`${location.origin}/#token=…`}</pre>
      <p class="dim">A restart of <code>coppice up</code> prints a new address, and the old one stops working.</p>
    </>
  );
}

function Form() {
  const [how, setHow] = useState<"password" | "credentials">("password");
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [credentials, setCredentials] = useState("");
  const [failure, setFailure] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    const body: SignIn = how === "password" ? { user, password } : { credentials };
    setBusy(true);
    setFailure(undefined);
    try {
      await sessions.signIn(body);
    } catch (error) {
      setFailure(failureOf(error));
    }
    setBusy(false);
  };
  const load = (event: Event & { currentTarget: HTMLInputElement }) => {
    const file = event.currentTarget.files?.[0];
    if (file === undefined) {
      return;
    }
    if (file.size > 64 * 1024) {
      setFailure({ reason: "Invalid", message: `The file ${file.name} has more than 64 KiB and is no credentials file. Choose another file.` });
      return;
    }
    file.text().then(setCredentials, () => setFailure({ reason: "Invalid", message: `${file.name} could not be read. Paste its text instead.` }));
  };
  return (
    <form onSubmit={(event) => void submit(event)} aria-busy={busy}>
      <fieldset class="ways">
        <legend class="unseen">How you sign in</legend>
        {(["password", "credentials"] as const).map((way) => (
          <label key={way}>
            <input type="radio" name="how" checked={how === way} onChange={() => setHow(way)} />
            <span>{way === "password" ? "User and password" : "Credentials file"}</span>
          </label>
        ))}
      </fieldset>
      {how === "password" ? (
        <>
          <label class="field">
            <span>User</span>
            <input ref={field} type="text" name="username" autocomplete="username" autocapitalize="none" spellcheck={false} required value={user} onInput={(event) => setUser(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Password</span>
            <input type="password" name="password" autocomplete="current-password" required value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
          </label>
        </>
      ) : (
        <>
          <label class="field">
            <span>File</span>
            <input type="file" accept=".creds,.txt,text/plain" onChange={load} />
          </label>
          <label class="field">
            <span>or its text</span>
            <textarea rows={6} required spellcheck={false} autocomplete="off" placeholder="-----BEGIN NATS USER JWT-----" value={credentials} onInput={(event) => setCredentials(event.currentTarget.value)} />
          </label>
        </>
      )}
      {failure !== undefined && <Problem what="The sign-in failed." failure={failure} />}
      <button type="submit" class="primary" disabled={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </button>
      <p class="dim">The console signs in to NATS as this user, and can do what the user may do. It stores neither password nor credentials.</p>
    </form>
  );
}
