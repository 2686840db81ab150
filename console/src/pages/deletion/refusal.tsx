import { Failed, failureOf, refused } from "../../api/client.ts";
import type { Failure, Ref } from "../../api/types.ts";
import { deletionPath, nameOf, objectPath } from "../../lib/paths.ts";
import { sentence, visible } from "../../lib/text.ts";
import { Link } from "../../ui/link.tsx";
import { Notice, Problem } from "../../ui/parts.tsx";

/** Refusal is why a deletion did not begin, as far as the page knows. */
export interface Refusal {
  /**
   * is Changed if something has changed since the plan, Gone if there is no such object any more, Refused if the server has refused for
   * another reason, and Unknown if the deletion may have been carried out.
   */
  is: "Changed" | "Gone" | "Refused" | "Unknown";
  failure: Failure;
}

/** refusalOf returns what an error of the request to delete means. */
export function refusalOf(error: unknown): Refusal {
  const failure = failureOf(error);
  if (!refused(error)) {
    return { is: "Unknown", failure };
  }
  const status = error instanceof Failed ? error.status : 0;
  return { is: status === 409 ? "Changed" : status === 404 && failure.reason === "NotFound" ? "Gone" : "Refused", failure };
}

interface Props {
  realm: string;
  object: Ref;
  refusal: Refusal;
  /** doubt: it is not known whether an earlier request has deleted the object. */
  doubt: boolean;
  again: () => void;
}

/** NotDeleted says why the deletion did not begin, or that this is not known. */
export function NotDeleted({ realm, object, refusal: { is, failure }, doubt, again }: Props) {
  const causes = failure.causes ?? [];
  const look = <Link href={objectPath(realm, object)}>Look at the object</Link>;
  switch (is) {
    case "Refused":
      return <Problem what={doubt ? "This request deleted nothing; an earlier one may have been carried out." : "Nothing was deleted."} failure={failure} />;
    case "Gone":
      return (
        <Notice tone="info" role="alert">
          <p>
            <strong>{visible(nameOf(object))} is gone.</strong> {doubt ? "The request before this one may have deleted it." : "It was removed after the plan was made."} <Link href={objectPath(realm, object)}>Its page says what the log has of it.</Link>
          </p>
        </Notice>
      );
    case "Unknown":
      return (
        <Notice tone="wait" role="alert">
          <p>
            <strong>It is not known whether the deletion was carried out.</strong> {visible(sentence(failure.message))} This page follows the object, and shows the deletion when it has begun.
          </p>
          <p>
            {look}
            {object.uid !== undefined && (
              <>
                , or <Link href={deletionPath(realm, { ...object, uid: object.uid })}>follow the deletion</Link>
              </>
            )}
            .
          </p>
        </Notice>
      );
    case "Changed":
      return (
        <Notice tone="wait" role="alert">
          <p>
            <strong>Something that the plan depends on has changed, and {doubt ? "this request deleted nothing; an earlier one may have been carried out" : "nothing was deleted"}.</strong> {causes.length === 0 && visible(sentence(failure.message))}
          </p>
          <button type="button" onClick={again}>
            Plan again
          </button>
          {causes.length > 0 && (
            <ul class="notes causes">
              {causes.map((cause) => (
                <li key={cause}>{visible(cause)}</li>
              ))}
            </ul>
          )}
        </Notice>
      );
  }
}
