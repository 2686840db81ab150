package model_test

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/coppice-gc/coppice/internal/bus"
)

// command is a request of the object API in the form that the model uses.
type command struct {
	verb     string
	resource resource
	ns       string
	items    []item
	dry      bool
	session  string // session of an import
	actor    string
}

// item has the part of a command that concerns one object.
type item struct {
	name      string // or empty, for generateName
	generate  string
	object    *object         // create, update, updatestatus, apply, import
	sets      map[string]bool // patch: which of owners, uses, finalizers, labels and spec are mentioned
	uid       string          // precondition
	revision  uint64          // precondition
	policy    string
	orphan    *bool
	grace     *int64
	version   string
	finalizer string
	reason    string // of a protection
}

// outcome is the result of a command for one object: a reply and effects.
type outcome struct {
	code    int
	reason  string // of a refusal
	effects []effect
}

func refusal(reason string) outcome { return outcome{reason: reason} }

// decide returns the outcome of a command for its i-th object at a time.
func (m *model) decide(c *command, i int, now int64) outcome {
	k := m.byResource(c.resource)
	if k == nil {
		return refusal("UnknownKind")
	}
	it := &c.items[i]
	at := place{k.Group, k.Kind, c.ns, it.name}
	switch c.verb {
	case bus.VerbCreate:
		return m.create(k, at, it, now)
	case bus.VerbApply:
		if m.at(at) == nil {
			created := *it
			created.object = new(*it.object)
			created.object.applied = it.said()
			return m.create(k, at, &created, now)
		}
	case bus.VerbImport:
		return m.imports(k, at, it, c.session, now)
	case bus.VerbDelete:
		if it.orphan != nil && it.policy != "" || !slices.Contains([]string{"", "Orphan", "Background", "Foreground"}, it.policy) {
			return refusal("Invalid") // A4.1, A4.2
		}
		if it.version != "" && !k.serves(it.version) {
			return refusal("BadRequest")
		}
	case bus.VerbUpdate, bus.VerbUpdateStatus:
		if !k.serves(it.object.version) {
			return refusal("BadRequest")
		}
	}
	o := m.at(at)
	switch {
	case o == nil:
		return refusal("NotFound") // A4.8
	case it.uid != "" && it.uid != o.uid && c.verb != bus.VerbApply, it.revision != 0 && it.revision != o.revision && c.verb != bus.VerbApply:
		return refusal("Conflict") // A2.1, A2.2, A4.6
	}
	switch c.verb {
	case bus.VerbUpdate:
		said := *it.object
		said.applied = o.applied
		return m.update(k, o, &said, now)
	case bus.VerbApply:
		return m.update(k, o, appliedTo(o, it), now)
	case bus.VerbPatch:
		return m.update(k, o, merge(o, it), now)
	case bus.VerbUpdateStatus:
		next := *o
		if next.status = it.object.status; next.status == o.status {
			return outcome{code: 200}
		}
		k.derive(&next)
		return outcome{code: 200, effects: []effect{{uid: o.uid, after: &next}}}
	case bus.VerbProtect:
		return m.protect(o, protector(c.actor, it.reason), now)
	case bus.VerbUnprotect:
		return m.unprotect(o)
	case bus.VerbDelete:
		if o.protected() {
			return refusal("Forbidden") // B2.1
		}
	case bus.VerbRemoveFinalizer:
		if it.finalizer == protectionFinalizer && o.has(it.finalizer) {
			return refusal("Conflict") // B2.13
		}
		if it.finalizer == contentsFinalizer && o.has(it.finalizer) && m.contents(o) > 0 {
			return refusal("Conflict") // A5.7
		}
		if it.finalizer == inUseFinalizer && o.has(it.finalizer) && len(m.usersOf(o)) > 0 {
			return refusal("Conflict") // B3.1
		}
		return outcome{code: 200, effects: unfinalize(o, it.finalizer)}
	}
	out := outcome{code: 202, effects: m.deletion(o, it.policyOf(), it.version, it.grace, now)}
	if len(out.effects) == 1 && out.effects[0].after == nil {
		out.code = 200
	}
	return out
}

// policyOf returns the propagation policy. It translates orphanDependents.
func (it *item) policyOf() string {
	switch {
	case it.orphan == nil:
		return it.policy
	case *it.orphan:
		return "Orphan"
	}
	return "Background"
}

var qualified = regexp.MustCompile(`^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// invalid reports whether metadata is invalid (A1.5, A1.6, A1.7, A1.10). Equal references
// were merged before.
func invalid(o *object) bool {
	controllers := 0
	for _, r := range o.owners {
		if r.version == "" || r.kind == "" || r.name == "" || r.uid == "" || r.group == "" && r.version == "v1" && r.kind == "Event" {
			return true
		}
		if r.controller == "true" {
			controllers++
		}
	}
	return controllers > 1 || repeated(o.uses) || o.has(orphanFinalizer) && o.has(foregroundFinalizer) ||
		slices.ContainsFunc(o.finalizers, func(f string) bool { return !qualified.MatchString(f) })
}

// merged returns references without duplicates, which are equal in every field (A1.9).
func merged(owners []ref) (list []ref) {
	for _, r := range owners {
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// closed returns the reason to refuse new objects in a namespace or of a kind that is being
// deleted, "" if neither is (A5.7).
func (m *model) closed(k *kind, ns string, receives func(*object) bool) string {
	if o := m.objects[k.uid]; o != nil && o.terminating() && !receives(o) {
		return "MethodNotAllowed"
	}
	if o := m.at(place{"", "Namespace", "", ns}); ns != "" && o != nil && o.terminating() && !receives(o) {
		return "Forbidden"
	}
	return ""
}

func (m *model) create(k *kind, at place, it *item, now int64) outcome {
	next := *it.object
	next.owners = merged(next.owners)
	governing := k.Group == "coppice.dev"
	switch {
	case !k.serves(next.version):
		return refusal("BadRequest")
	case invalid(&next), next.failed, next.has(contentsFinalizer), governing && len(next.pending) > 0, k.namespaced() != (at.ns != ""):
		return refusal("Invalid")
	case next.has(protectionFinalizer), next.has(inUseFinalizer), isPolicy(&object{group: k.Group, kind: k.Kind}) && m.badPolicy(&next, nil):
		return refusal("Invalid")
	case isRegistration(&next) && m.at(at) == nil && m.taken(&next):
		return refusal("Invalid")
	case it.generate == "" && m.at(at) != nil:
		return refusal("AlreadyExists") // A1.4
	}
	if why := m.closed(k, at.ns, func(*object) bool { return false }); why != "" {
		return refusal(why)
	}
	next.group, next.kind, next.ns, next.name = k.Group, k.Kind, at.ns, at.name
	next.uid, next.generation, next.created = "", 1, now
	next.deleted, next.grace, next.imported, next.session, next.awaited = 0, none, 0, "", 0
	next.status = ""
	if why := m.bind(&next, nil, false); why != "" {
		return refusal(why)
	}
	k.derive(&next)
	m.cover(&next)
	return outcome{code: 201, effects: []effect{{after: &next}}}
}

// taken reports whether a registration names something that another has registered.
func (m *model) taken(o *object) bool {
	var k kind
	_ = json.Unmarshal([]byte(o.spec), &k)
	return m.kinds[[2]string{k.Group, k.Kind}] != nil || m.byResource(resource{k.Group, k.Plural}) != nil
}

// merge applies a merge patch (RFC 7386) to an object.
func merge(o *object, it *item) *object {
	next := *o
	if it.sets["owners"] {
		next.owners = it.object.owners
	}
	if it.sets["expires"] {
		next.expires = it.object.expires
	}
	if it.sets["uses"] {
		next.uses = it.object.uses
	}
	if it.sets["fin"] {
		next.finalizers = it.object.finalizers
	}
	if it.sets["labels"] {
		labels := labelMap(o.labels)
		for k, v := range labelMap(it.object.labels) {
			labels[k] = v
		}
		next.labels = labelText(labels)
	}
	if it.sets["spec"] {
		spec := fields(o.spec)
		for k, v := range fields(it.object.spec) {
			spec[k] = v
		}
		b, _ := json.Marshal(spec)
		next.spec = string(b)
	}
	if it.object.version != "" && it.sets["version"] {
		next.version = it.object.version
	}
	return &next
}

// kept returns the finalizers that an object has after a client has written a list: external ones stay,
// each behind the stored one before it.
func kept(stored, said []string) []string {
	list := slices.Clone(said)
	behind := 0 // where the last stored finalizer is in the list
	for _, f := range stored {
		switch f {
		case orphanFinalizer, foregroundFinalizer, contentsFinalizer, inUseFinalizer, protectionFinalizer:
			if i := slices.Index(list[behind:], f); i >= 0 {
				behind += i + 1
			}
			continue
		}
		if !slices.Contains(said, f) {
			list = slices.Insert(list, behind, f)
		}
		if i := slices.Index(list[behind:], f); i >= 0 {
			behind += i + 1
		}
	}
	return list
}

// update replaces the parts of an object that a client may set (A2).
func (m *model) update(k *kind, o, said *object, now int64) outcome {
	next := *o
	next.version, next.owners, next.finalizers, next.labels, next.spec = said.version, merged(said.owners), kept(o.finalizers, said.finalizers), said.labels, said.spec
	next.pending, next.failed, next.uses = said.pending, said.failed, said.uses
	next.expires, next.applied = said.expires, said.applied
	added := slices.ContainsFunc(said.finalizers, func(f string) bool { return !o.has(f) })
	follows := len(next.pending) <= len(o.pending) && slices.Equal(next.pending, o.pending[len(o.pending)-len(next.pending):])
	switch {
	case !k.serves(next.version):
		return refusal("BadRequest")
	case invalid(&next), o.terminating() && added, !follows, o.failed != next.failed && (o.failed || !o.uninitialized()),
		next.has(contentsFinalizer) && !o.has(contentsFinalizer), next.has(protectionFinalizer) && !o.has(protectionFinalizer), next.has(inUseFinalizer) && !o.has(inUseFinalizer),
		isPolicy(o) && m.badPolicy(&next, o):
		return refusal("Invalid")
	}
	if o.has(contentsFinalizer) && !next.has(contentsFinalizer) {
		next.finalizers = append(slices.Clip(next.finalizers), contentsFinalizer)
	}
	for _, f := range []string{inUseFinalizer, protectionFinalizer} {
		if o.has(f) && !next.has(f) {
			next.finalizers = append(slices.Clip(next.finalizers), f)
		}
	}
	if why := m.bind(&next, o, false); why != "" {
		return refusal(why)
	}
	failing := next.failed && !o.failed
	if next.spec != o.spec {
		next.generation++
		next.walked = 0 // B2.11
	}
	if next.spec != o.spec || next.labels != o.labels || failing {
		k.derive(&next)
	}
	if next.spec != o.spec || next.labels != o.labels || next.uninitialized() != o.uninitialized() {
		m.cover(&next)
	}
	out := outcome{code: 200}
	switch {
	case o.terminating() && len(next.finalizers) == 0 && o.grace <= 0:
		out.effects = []effect{{uid: o.uid}} // A2.10, A2.11
		return out
	case next.text() == o.text():
		return out // A2.14
	}
	out.effects = []effect{{uid: o.uid, after: &next}}
	if failing && !o.terminating() {
		out.effects = append(out.effects, m.deletion(&next, "", next.version, nil, now)...)
	}
	return out
}

// targets reports whether an object is of a resource, in a namespace, and has the labels
// "k=v,k=v".
func (m *model) targets(o *object, r resource, ns, labels string) bool {
	k := m.kindOf(o)
	if k == nil || k.Group != r.group || k.Plural != r.plural || o.ns != ns {
		return false
	}
	return labelled(o, labels)
}
