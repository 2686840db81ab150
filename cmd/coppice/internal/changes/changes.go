package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Change is what happened to an object that is being followed.
type Change struct {
	Typ    string // ADDED, MODIFIED, DELETED
	Was    *coppicev1.Object
	Object *coppicev1.Object // as it is, or as it last was
	Reason coppicev1.Reason
}

// The types of a change, spelled as in Kubernetes.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
)

// Of describes what happened to an object, a phrase for each change: those of its deletion come
// before those of its contents. ownerKey returns the key of the owner that a reference names.
func Of(c Change, ownerKey func(*coppicev1.OwnerReference) string) []string {
	is := c.Object.GetMetadata()
	switch c.Typ {
	case Added:
		var said []string
		for _, r := range is.GetOwnerReferences() {
			said = append(said, "owned by "+ownerKey(r))
		}
		if is.GetDeletionTimestamp() != nil || is.GetInitializers() != nil {
			said = append(said, printing.StatusOf(c.Object))
		}
		return said
	case Deleted:
		if why := history.ReasonOf(c.Reason); why != "" {
			return []string{why}
		}
		return nil
	}
	was := c.Was.GetMetadata()
	marked := was.GetDeletionTimestamp() == nil && is.GetDeletionTimestamp() != nil
	said := initializerChanges(was.GetInitializers(), is.GetInitializers())
	if marked {
		said = append(said, "marked for deletion"+policyOf(is.GetFinalizers()))
		if why := history.ReasonOf(c.Reason); why != "" {
			said = append(said, why)
		}
	}
	for _, f := range was.GetFinalizers() {
		if !slices.Contains(is.GetFinalizers(), f) {
			said = append(said, "finalizer "+f+" removed")
		}
	}
	for _, f := range is.GetFinalizers() {
		if !slices.Contains(was.GetFinalizers(), f) && (!marked || !lifecycle.IsBuiltinFinalizer(f)) {
			said = append(said, "finalizer "+f+" added")
		}
	}
	said = append(said, ownerChanges(was, is, ownerKey)...)
	if !marked && len(said) > 0 {
		if why := history.ReasonOf(c.Reason); why != "" {
			said = append(said, why)
		}
	}
	return append(said, contentChanges(c.Was, c.Object)...)
}

// initializerChanges says what initializers did. was is nil for an object that
// was initialized.
func initializerChanges(was, is *coppicev1.Initializers) []string {
	var said []string
	left := printing.InitializerNames(is)
	for _, name := range printing.InitializerNames(was) {
		if !slices.Contains(left, name) {
			said = append(said, "initializer "+name+" removed")
		}
	}
	if r := is.GetResult(); r != nil && was.GetResult() == nil {
		said = append(said, "initialization failed"+terminal.Prefixed(": ", r.GetMessage()))
	}
	return said
}

// policyOf names the policy of the deletion of a marked object with these finalizers.
func policyOf(finalizers []string) string {
	how := ""
	switch {
	case slices.Contains(finalizers, lifecycle.FinalizerForeground):
		how = ", in the foreground"
	case slices.Contains(finalizers, lifecycle.FinalizerOrphan):
		how = ", orphaning its dependents"
	}
	if slices.Contains(finalizers, lifecycle.FinalizerContents) {
		how += ", with what is in it"
	}
	return how
}

func ownerChanges(was, is *coppicev1.ObjectMeta, ownerKey func(*coppicev1.OwnerReference) string) []string {
	find := func(m *coppicev1.ObjectMeta, r *coppicev1.OwnerReference) *coppicev1.OwnerReference {
		for _, o := range m.GetOwnerReferences() {
			if o.GetUid() == r.GetUid() && ownerKey(o) == ownerKey(r) {
				return o
			}
		}
		return nil
	}
	var said []string
	for _, r := range was.GetOwnerReferences() {
		if find(is, r) == nil {
			said = append(said, "owner "+ownerKey(r)+" removed")
		}
	}
	for _, r := range is.GetOwnerReferences() {
		o := find(was, r)
		switch {
		case o == nil:
			said = append(said, "owner "+ownerKey(r)+" added")
		case o.GetBlockOwnerDeletion() != r.GetBlockOwnerDeletion():
			said = append(said, fmt.Sprintf("owner %s: blockOwnerDeletion %t", ownerKey(r), r.GetBlockOwnerDeletion()))
		case o.GetController() != r.GetController():
			said = append(said, fmt.Sprintf("owner %s: controller %t", ownerKey(r), r.GetController()))
		}
	}
	return said
}

// contentChanges names the parts of an object that have changed.
func contentChanges(was, is *coppicev1.Object) []string {
	var parts []string
	add := func(changed bool, name string) {
		if changed {
			parts = append(parts, name)
		}
	}
	add(!maps.Equal(was.GetMetadata().GetLabels(), is.GetMetadata().GetLabels()), "labels")
	add(!maps.Equal(was.GetMetadata().GetAnnotations(), is.GetMetadata().GetAnnotations()), "annotations")
	add(!bytes.Equal(was.GetSpec(), is.GetSpec()), "spec")
	add(!bytes.Equal(was.GetStatus(), is.GetStatus()), "status")
	a, b := members(was.GetExtra()), members(is.GetExtra())
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if other, ok := b[name]; !ok || !bytes.Equal(a[name], other) {
			parts = append(parts, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			parts = append(parts, name)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{strings.Join(parts, ", ") + " changed"}
}

func members(extra []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if len(extra) > 0 && json.Unmarshal(extra, &m) != nil {
		return nil // the server has only objects
	}
	return m
}
