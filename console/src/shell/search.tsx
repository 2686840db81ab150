import { go } from "../lib/go.ts";
import { objectPath } from "../lib/paths.ts";
import { ObjectSearch } from "../ui/objectsearch.tsx";

/** Search leads to the page of an object of a realm. */
export function Search({ realm }: { realm: string }) {
  return <ObjectSearch realm={realm} label="Search objects" shortcut="/" chosen={(object) => go(objectPath(realm, object))} />;
}
