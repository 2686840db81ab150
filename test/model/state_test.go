package model_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The reference model: the rules of docs/semantics.md over maps. Times are in microseconds
// since 1970; revisions are those of the realm.

const (
	orphanFinalizer     = "orphan"
	foregroundFinalizer = "foregroundDeletion"
	contentsFinalizer   = "coppice.dev/contents"
)

// ref is an owner reference. controller and blocking are "", "false" or "true".
type ref struct{ group, version, kind, name, uid, controller, blocking string }

func (r ref) String() string {
	s := fmt.Sprintf("%s/%s %s (%s)", r.group, r.version, strings.ToLower(r.kind)+" "+r.name, r.uid)
	if r.controller != "" {
		s += " controller=" + r.controller
	}
	if r.blocking != "" {
		s += " blocking=" + r.blocking
	}
	return s
}

// place has the coordinates of an object, or those that a reference claims.
type place struct{ group, kind, ns, name string }

// object is an object. Its slices are never modified. The number none stands for an absent
// grace period.
type object struct {
	uid, group, version, kind, ns, name string

	generation int64
	created    int64
	owners     []ref
	finalizers []string
	deleted    int64 // deletionTimestamp; 0: not terminating
	grace      int64 // deletionGracePeriodSeconds
	imported   int64
	session    string
	agent      int64 // the grace period that a DELETE gives its agent, none: no agent
	observed   int64 // status.observedGeneration
	awaited    int64 // the generation that observed must reach
	pending    []string
	failed     bool
	labels     string // as "k=v,k=v", sorted
	spec       string // as canonical JSON
	status     string
	applied    string // the record of the last apply: see said
	protector  string // the actor that protects it, and the reason
	shielded   int64  // the time since which it does
	policies   []string
	uses       []use
	expires    int64 // expiresAt; 0: never
	walked     int64 // the generation of a protection policy of which the walk is complete

	revision uint64 // of the last change
	changed  int64  // the time of the last change
	freed    uint64 // the revision at which it lost its protection
	marked   uint64 // of the mark for deletion
}

const none = -1

func (o *object) place() place        { return place{o.group, o.kind, o.ns, o.name} }
func (o *object) terminating() bool   { return o.deleted != 0 }
func (o *object) has(f string) bool   { return slices.Contains(o.finalizers, f) }
func (o *object) waiting() bool       { return o.terminating() && o.has(foregroundFinalizer) }
func (o *object) orphaning() bool     { return o.terminating() && o.has(orphanFinalizer) }
func (o *object) acknowledged() bool  { return o.observed >= o.awaited }
func (o *object) ending() bool        { return o.terminating() && o.grace > 0 }
func (o *object) uninitialized() bool { return len(o.pending) > 0 || o.failed }
func (o *object) String() string      { return strings.ToLower(o.kind) + " " + o.ns + "/" + o.name }

// appeared returns the time at which the object was created or imported.
func (o *object) appeared() int64 {
	if o.imported != 0 {
		return o.imported
	}
	return o.created
}

// text prints the object without its revisions, for comparisons and messages.
func (o *object) text() string {
	if o == nil {
		return "gone"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s uid=%s generation=%d created=%d", o, o.group, o.version, o.uid, o.generation, o.created)
	for _, f := range []struct {
		name  string
		value any
		zero  bool
	}{
		{"owners", o.owners, len(o.owners) == 0}, {"finalizers", o.finalizers, len(o.finalizers) == 0},
		{"deleted", o.deleted, o.deleted == 0}, {"grace", o.grace, o.grace == none}, {"imported", o.imported, o.imported == 0},
		{"session", o.session, o.session == ""}, {"agent", o.agent, o.agent == none}, {"observed", o.observed, o.observed == 0},
		{"awaited", o.awaited, o.awaited == 0}, {"pending", o.pending, len(o.pending) == 0}, {"failed", o.failed, !o.failed},
		{"labels", o.labels, o.labels == ""}, {"spec", o.spec, o.spec == ""}, {"status", o.status, o.status == ""},
		{"applied", o.applied, o.applied == ""},
		{"protector", o.protector, o.protector == ""}, {"since", o.shielded, o.shielded == 0}, {"policies", o.policies, len(o.policies) == 0},
		{"uses", o.uses, len(o.uses) == 0}, {"expires", o.expires, o.expires == 0},
		{"walked", o.walked, o.walked == 0},
	} {
		if !f.zero {
			fmt.Fprintf(&b, " %s=%v", f.name, f.value)
		}
	}
	return b.String()
}

// removal is a recorded removal.
type removal struct {
	place
	revision uint64
}

// kind has the content of a registration.
type kind struct {
	uid                                         string
	since                                       int64
	Group, Kind                                 string
	Plural, Scope                               string
	ObservesGeneration, FinalizeAfterDependents bool
	GracefulDeletion                            *struct {
		DefaultSeconds int64
		Except         []struct {
			Field string
			In    []string
		}
	}
	Brake *struct {
		Objects, Percent int
		Window           string
	}
	Versions []struct{ Name, DefaultDeletion string }
}

func (k *kind) namespaced() bool { return k.Scope != "Cluster" }
func (k *kind) resource() string { return resource{k.Group, k.Plural}.String() }

func (k *kind) serves(version string) bool {
	for _, v := range k.Versions {
		if v.Name == version {
			return true
		}
	}
	return false
}

// byDefault returns the default policy of a version, or of the first version if there is no
// version.
func (k *kind) byDefault(version string) string {
	for _, v := range k.Versions {
		if v.Name == version || version == "" {
			return v.DefaultDeletion
		}
	}
	return ""
}

// resource returns the resource as in a subject.
type resource struct{ group, plural string }

func (r resource) String() string {
	if r.group == "" {
		return r.plural
	}
	return r.plural + "." + r.group
}

// session is an import session.
type session struct {
	last   int64 // command
	closed bool
}

type options struct {
	ownerGrace, importIdle time.Duration
	cascade, collect       bool
}

func defaults() options { return options{ownerGrace: 10 * time.Minute, importIdle: 10 * time.Minute} }

// model is a realm.
type model struct {
	objects    map[string]*object
	names      map[place]string
	dependents map[string]map[string]bool // owner's uid to dependents' uids, valid or not
	users      map[string]map[string]bool // used object's uid to users' uids, "" for uses that wait for it
	removed    map[string]removal
	kinds      map[[2]string]*kind // group, kind
	sessions   map[string]session
	policies   map[string]bool  // uids of protection and expiry policies
	brakes     map[string]brake // by resource
	released   map[string]bool  // uids of objects that the release of a brake lets through
	options    options
	revision   uint64
	governed   int // counts changes of kinds and options
}

func newModel() *model {
	m := &model{
		objects: map[string]*object{}, names: map[place]string{}, dependents: map[string]map[string]bool{}, users: map[string]map[string]bool{}, removed: map[string]removal{},
		kinds: map[[2]string]*kind{}, sessions: map[string]session{}, policies: map[string]bool{}, brakes: map[string]brake{}, released: map[string]bool{}, options: defaults(),
	}
	of := &kind{} // the kind Kind needs no registration
	if err := json.Unmarshal([]byte(`{"group":"coppice.dev","kind":"Kind","plural":"kinds","scope":"Cluster","versions":[{"name":"v1"}]}`), of); err != nil {
		panic(err)
	}
	m.kinds[[2]string{of.Group, of.Kind}] = of
	return m
}

// at returns the object with a name, nil if there is none.
func (m *model) at(p place) *object { return m.objects[m.names[p]] }

// put sets the object with a uid at the next revision; nil removes it.
func (m *model) put(uid string, o *object) {
	m.revision++
	was := m.objects[uid]
	if was != nil {
		for _, r := range was.owners {
			unindex(m.dependents, r.uid, uid)
		}
		for _, u := range was.uses {
			unindex(m.users, u.uid, uid)
		}
	}
	if o == nil {
		if was != nil {
			delete(m.objects, uid)
			delete(m.policies, uid)
			delete(m.released, uid)
			delete(m.names, was.place())
			m.removed[uid] = removal{was.place(), m.revision}
			m.govern(was, nil)
		}
		return
	}
	o.revision = m.revision
	if was != nil && !slices.Equal(was.owners, o.owners) {
		delete(m.released, uid) // B4.5
	}
	m.objects[uid] = o
	if isPolicy(o) || isExpiryPolicy(o) {
		m.policies[uid] = true
	}
	m.names[o.place()] = uid
	delete(m.removed, uid)
	m.index(o)
	m.govern(was, o)
}

// index adds an object to the dependents of its owners, and to the users of what it uses.
func (m *model) index(o *object) {
	add := func(to map[string]map[string]bool, key string) {
		if to[key] == nil {
			to[key] = map[string]bool{}
		}
		to[key][o.uid] = true
	}
	for _, r := range o.owners {
		add(m.dependents, r.uid)
	}
	for _, u := range o.uses {
		add(m.users, u.uid)
	}
}

func unindex(from map[string]map[string]bool, key, uid string) {
	if delete(from[key], uid); len(from[key]) == 0 {
		delete(from, key)
	}
}

// govern applies changes of kinds and realm settings.
func (m *model) govern(was, is *object) {
	o := cmp.Or(is, was)
	if o.group != "coppice.dev" || o.ns != "" || was != nil && is != nil && was.spec == is.spec {
		return
	}
	switch o.kind {
	case "Kind":
		m.governed++
		k := &kind{}
		if err := json.Unmarshal([]byte(o.spec), k); err != nil {
			panic(err)
		}
		if is == nil {
			delete(m.brakes, k.resource())
		}
		if delete(m.kinds, [2]string{k.Group, k.Kind}); is != nil {
			k.uid, k.since = is.uid, is.appeared()
			m.kinds[[2]string{k.Group, k.Kind}] = k
		}
	case "Realm":
		m.governed++
		if m.options = defaults(); is != nil {
			m.options.read(is.spec)
		}
	}
}

func (o *options) read(spec string) {
	var s struct{ OwnerGrace, ImportIdle, ProcessorPropagation, UnreachableCycles string }
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		panic(err)
	}
	if d, err := time.ParseDuration(s.OwnerGrace); err == nil {
		o.ownerGrace = d
	}
	if d, err := time.ParseDuration(s.ImportIdle); err == nil {
		o.importIdle = d
	}
	o.cascade, o.collect = s.ProcessorPropagation == "cascade", s.UnreachableCycles == "collect"
}

func (m *model) kindOf(o *object) *kind { return m.kinds[[2]string{o.group, o.kind}] }

func (m *model) byResource(r resource) *kind {
	for _, k := range m.kinds {
		if k.Group == r.group && k.Plural == r.plural {
			return k
		}
	}
	return nil
}

// expires returns the time at which a session expires; 0 if it is not open.
func (m *model) expires(id string) int64 {
	s, ok := m.sessions[id]
	if !ok || s.closed || id == "" {
		return 0
	}
	return s.last + m.options.importIdle.Microseconds()
}

// derive stores the parts of spec and status that a DELETE needs.
func (k *kind) derive(o *object) {
	o.agent, o.observed = none, 0
	status := fields(o.status)
	if g, ok := status["observedGeneration"].(float64); ok {
		o.observed = int64(g)
	}
	if k.GracefulDeletion == nil {
		return
	}
	spec := fields(o.spec)
	for _, c := range k.GracefulDeletion.Except {
		part, name, _ := strings.Cut(c.Field, ".")
		value, _ := map[string]map[string]any{"spec": spec, "status": status}[part][name].(string)
		if slices.Contains(c.In, value) {
			return
		}
	}
	o.agent = k.GracefulDeletion.DefaultSeconds
	if own, ok := spec["terminationGracePeriodSeconds"].(float64); ok {
		o.agent = int64(own)
	}
	o.agent = leastGrace(o.agent)
}

func leastGrace(s int64) int64 {
	if s < 0 {
		return 1 // A4.5
	}
	return s
}

func fields(text string) map[string]any {
	v := map[string]any{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			panic(fmt.Sprintf("%s: %v", text, err))
		}
	}
	return v
}

// canonical returns JSON in canonical form.
func canonical(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func labelText(labels map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, k+"="+labels[k])
	}
	return strings.Join(list, ",")
}

func labelMap(text string) map[string]string {
	labels := map[string]string{}
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(f, "=")
		labels[k] = v
	}
	return labels
}
