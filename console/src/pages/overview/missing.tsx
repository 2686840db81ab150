import type { Missing } from "../../api/types.ts";
import { MissingParts } from "../../ui/parts.tsx";

/** The parts that decide whether something is stuck, by the names that the server gives them. */
export const stuckParts = ["pending work", "consumers of finalizers and agents", "parked work", "brakes", "changes of objects", "realm"];

/** The parts of an overview that have a section. Others are named at the top. */
const placed = new Set([...stuckParts, "warnings", "storage"]);

/** MissingIn says in a section which parts of it could not be read. */
export function MissingIn({ missing, parts }: { missing: readonly Missing[] | null; parts: string[] }) {
  return <MissingParts missing={(missing ?? []).filter((m) => parts.includes(m.part.toLowerCase()))} />;
}

/** MissingRest says what could not be read, and belongs to no section. */
export function MissingRest({ missing }: { missing: readonly Missing[] | null }) {
  return <MissingParts missing={(missing ?? []).filter((m) => !placed.has(m.part.toLowerCase()))} />;
}
