package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Initializers complete an object before others see it (A8, seed 000). While initializers
// are pending, the object is hidden from requests that do not ask for such objects. They
// remove themselves in order; when the last is removed the object becomes visible. If one
// fails it sets the result, and the object is deleted.

// initializationFailure is the status of a result (seed 000).
const initializationFailure = "Failure"

// Uninitialized reports whether the object waits for its initializers, or one
// of them has failed. Commands and the collector treat it as any other.
func (n *Node) Uninitialized() bool { return len(n.Initializers) > 0 || n.InitializationFailed }

// Read is Find for read requests: it finds an uninitialized object only if uninitialized
// is true.
func Read(v View, k Key, uninitialized bool) (*Node, *Error) {
	n, err := Find(v, k)
	if err == nil && n.Uninitialized() && !uninitialized {
		return nil, errNotFound(k)
	}
	return n, err
}

// initializersOf are the initializers as clients see them, nil for an object
// that is initialized.
func initializersOf(n *Node, b *coppicev1.Body) *coppicev1.Initializers {
	if !n.Uninitialized() {
		return nil
	}
	return &coppicev1.Initializers{Pending: namedInitializers(n.Initializers), Result: b.GetInitializersResult()}
}

func namedInitializers(names []string) []*coppicev1.Initializer {
	var list []*coppicev1.Initializer
	for _, name := range names {
		list = append(list, &coppicev1.Initializer{Name: name})
	}
	return list
}

func pendingOf(in *coppicev1.Initializers) []string {
	var names []string
	for _, p := range in.GetPending() {
		names = append(names, p.GetName())
	}
	return names
}

// validatePending checks the initializers of an object that is to be.
func validatePending(k Key, in *coppicev1.Initializers) []Cause {
	if len(in.GetPending()) > maxListed {
		return []Cause{tooMany("metadata.initializers.pending", len(in.GetPending()), maxListed)}
	}
	var causes []Cause
	for i, name := range pendingOf(in) {
		causes = append(causes, checkSubdomain(fmt.Sprintf("metadata.initializers.pending[%d].name", i), name)...)
	}
	if len(in.GetPending()) > 0 && governing(k.Kind.Group, k.Kind.Kind) {
		causes = append(causes, forbidden("metadata.initializers", "the realm goes by the object as soon as it is there"))
	}
	return causes
}

// validateInitializers checks the initializers of an object that is created.
func validateInitializers(k Key, in *coppicev1.Initializers) []Cause {
	causes := validatePending(k, in)
	if in.GetResult() != nil {
		causes = append(causes, forbidden("metadata.initializers.result", "an initializer sets it, in an update"))
	}
	return causes
}

// validateInitialization checks how an update changes the initializers: those
// at the front may go, and a result may come.
func validateInitialization(was *Node, old *coppicev1.Body, in *coppicev1.Initializers) []Cause {
	pending, result := pendingOf(in), in.GetResult()
	if !was.Uninitialized() {
		if len(pending) > 0 || result != nil {
			return []Cause{forbidden("metadata.initializers", "the object is initialized, and stays so")}
		}
		return nil
	}
	var causes []Cause
	if !follows(was.Initializers, pending) {
		causes = append(causes, forbidden("metadata.initializers.pending", fmt.Sprintf(
			"initializers are removed in order, first to last, and none is added or renamed: pending are %q, and would be %q", was.Initializers, pending)))
	}
	if was.InitializationFailed {
		if !proto.Equal(result, old.GetInitializersResult()) {
			causes = append(causes, invalidValue("metadata.initializers.result", result.GetMessage(), "field is immutable"))
		}
		return causes
	}
	return append(causes, validateResult(result)...)
}

func validateResult(result *coppicev1.Status) []Cause {
	if result == nil || result.GetStatus() == initializationFailure {
		return nil
	}
	return []Cause{notSupported("metadata.initializers.result.status", result.GetStatus(), initializationFailure)}
}

// follows reports whether the next list is what is left of was when some at its
// front have gone.
func follows(was, next []string) bool {
	return len(next) <= len(was) && slices.Equal(was[len(was)-len(next):], next)
}

// failed decides the deletion of an object whose initialization has failed. n is the object after
// the update that reported the failure. It is deleted by the ordinary rules, so that its finalizers
// are called (seed 000; A8 ignores them).
func failed(ctx *Context, at Key, n *Node) []Event {
	return deletion(ctx.View, ctx.Now, n, at.Kind, request{
		version: n.Version(), reason: coppicev1.Reason_REASON_INITIALIZATION_FAILED,
	})
}

// validateImportedInitializers checks what only import accepts: an object whose
// initialization has failed, which must be terminating.
func validateImportedInitializers(k Key, m *coppicev1.ObjectMeta) []Cause {
	causes := validatePending(k, m.GetInitializers())
	result := m.GetInitializers().GetResult()
	causes = append(causes, validateResult(result)...)
	if result != nil && m.GetDeletionTimestamp() == nil {
		causes = append(causes, required("metadata.deletionTimestamp", "an object whose initialization has failed is being deleted"))
	}
	return causes
}

// keepInitialized corrects the initializers of an import onto an existing object: an
// import does not undo initialization.
func keepInitialized(was *Node, old *coppicev1.Body, node *Node, body *coppicev1.Body) {
	if !follows(was.Initializers, node.Initializers) {
		node.Initializers = was.Initializers
	}
	if was.InitializationFailed || !was.Uninitialized() {
		node.InitializationFailed, body.InitializersResult = was.InitializationFailed, old.GetInitializersResult()
	}
}

// waitsFor returns the end of the message that an object exists: the initializers that it
// waits for.
func waitsFor(n *Node) string {
	if n == nil || len(n.Initializers) == 0 {
		return ""
	}
	return ", and waits for its initializers: " + strings.Join(n.Initializers, ", ")
}
