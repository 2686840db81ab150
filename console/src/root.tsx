import type { ComponentChildren } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { usePathname, useSearch } from "wouter-preact/use-browser-location";
import { failureOf } from "./api/client.ts";
import { live, sessions } from "./app.ts";
import type { Session } from "./api/types.ts";
import { routeOf } from "./lib/paths.ts";
import { tick } from "./lib/time.ts";
import { EventsPage } from "./pages/events/events.tsx";
import { DeletePage } from "./pages/deletion/plan.tsx";
import { ProgressPage } from "./pages/deletion/progress.tsx";
import { GraphPage } from "./pages/graph/graph.tsx";
import { ObjectView } from "./pages/object/object.tsx";
import { OverviewPage } from "./pages/overview/overview.tsx";
import { ParkedPage } from "./pages/parked/parked.tsx";
import { Home, RealmsPage } from "./pages/realms.tsx";
import { SignInPage } from "./pages/signin.tsx";
import { UnknownPage, UnknownRealm } from "./pages/unknown.tsx";
import { Shell } from "./shell/shell.tsx";
import { Problem } from "./ui/parts.tsx";
import { View } from "./ui/view.tsx";

/** Root shows the view of the URL, or the sign-in. */
export function Root() {
  const state = sessions.state.value;
  const signedIn = state.is === "in";
  useEffect(tick, []);
  useEffect(() => {
    if (!signedIn) {
      return;
    }
    live.start();
    const online = () => live.now();
    const seen = () => {
      if (document.visibilityState === "visible") {
        live.now();
      }
    };
    window.addEventListener("online", online);
    document.addEventListener("visibilitychange", seen);
    return () => {
      window.removeEventListener("online", online);
      document.removeEventListener("visibilitychange", seen);
      live.stop();
    };
  }, [signedIn]);
  switch (state.is) {
    case "starting":
      return <main id="main" aria-busy="true" />;
    case "unreachable":
      return (
        <View title="No connection" of="unreachable">
          <Problem what="The console could not be opened." failure={state.failure} again={() => void sessions.again()} />
        </View>
      );
    case "out":
      return <SignInPage ways={state.ways} expired={state.expired} failure={state.failure} />;
    case "in":
      return <Views session={state.session} />;
  }
}

function Views({ session }: { session: Session }) {
  const pathname = usePathname();
  const search = useSearch();
  const route = routeOf(pathname, search);
  const realm = "realm" in route ? route.realm : undefined;
  if (realm !== undefined && !(session.realms ?? []).some((r) => r.name === realm)) {
    return (
      <Shell session={session} realm={undefined}>
        <UnknownRealm realm={realm} session={session} />
      </Shell>
    );
  }
  return (
    <Shell session={session} realm={realm} view={route.view}>
      <Guard key={pathname}>
        <Page session={session} route={route} pathname={pathname} />
      </Guard>
    </Shell>
  );
}

/** Guard shows an error of a view in its place, so that the rest of the page works. */
function Guard({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary() as [unknown, () => void];
  if (error === undefined) {
    return <>{children}</>;
  }
  return (
    <View title="This view failed" of="failed">
      <Problem what="The view cannot be shown." failure={failureOf(error)} again={() => location.reload()} />
    </View>
  );
}

function Page({ session, route, pathname }: { session: Session; route: ReturnType<typeof routeOf>; pathname: string }) {
  switch (route.view) {
    case "home":
      return <Home session={session} />;
    case "realms":
      return <RealmsPage session={session} />;
    case "overview":
      return <OverviewPage key={route.realm} realm={route.realm} />;
    case "events":
      return <EventsPage key={route.realm} realm={route.realm} />;
    case "graph":
      return <GraphPage key={route.realm} realm={route.realm} />;
    case "object":
      return <ObjectView key={`${route.realm} ${pathname} ${route.object.uid ?? ""}`} realm={route.realm} object={route.object} />;
    case "delete":
      return <DeletePage key={`${route.realm} ${pathname} ${route.object.uid ?? ""}`} realm={route.realm} object={route.object} choice={route.choice} />;
    case "deletion":
      return <ProgressPage key={`${route.realm} ${route.root.uid}`} realm={route.realm} root={route.root} />;
    case "parked":
      return <ParkedPage key={route.realm} realm={route.realm} />;
    case "unknown":
      return <UnknownPage path={pathname} />;
  }
}
