// Package expiry evaluates the expiry policies of a realm. [Policies.Examine] handles the operation by which a
// scanner asks for it: it evaluates a policy on a page of objects, gives notices, and has due objects deleted.
// [Policies.Matching] finds the objects that a release of a brake lets through, and [Policies.Status] returns what is
// known of the evaluations.
package expiry
