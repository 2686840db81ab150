package lifecycle_test

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The commands of clients.

func (s *script) create(a *args) string { return s.send(a, lifecycle.Create) }

func (s *script) apply(a *args) string { return s.send(a, lifecycle.Apply) }

func (s *script) applyAcross(a *args) string { return s.send(a, lifecycle.ApplyAcross) }

func (s *script) importObject(a *args) string {
	session := a.text("session")
	out := s.send(a, func(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Import(ctx, at, session, o)
	})
	if session != "" {
		s.realm.TouchSession(session, false)
	}
	return out
}

func (s *script) closeSession(a *args) string {
	s.realm.TouchSession(a.text("session"), true)
	return ""
}

// update is a client's read, change, write: what is not named stays. With
// "replace" nothing stays.
func (s *script) update(a *args) string { return s.sendChanged(a, lifecycle.Update) }

func (s *script) updateStatus(a *args) string { return s.sendChanged(a, lifecycle.UpdateStatus) }

type decide func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)

func (s *script) send(a *args, decide decide) string {
	at := a.key(s, 0)
	return s.sendObject(a, at, &coppicev1.Object{
		ApiVersion: at.Kind.APIVersion(), Kind: at.Kind.Kind, Metadata: &coppicev1.ObjectMeta{Name: at.Name},
	}, decide)
}

func (s *script) sendChanged(a *args, decide decide) string {
	at := a.key(s, 0)
	n, _ := lifecycle.Find(s.realm, at)
	if n == nil || a.flag("replace") {
		return s.send(a, decide)
	}
	o := proto.Clone(lifecycle.Object{Node: n, Body: s.realm.Body(n)}.API()).(*coppicev1.Object)
	o.Metadata.ResourceVersion = 0
	return s.sendObject(a, at, o, decide)
}

func (s *script) sendObject(a *args, at lifecycle.Key, o *coppicev1.Object, decide decide) string {
	ctx := s.context(a, at.Name)
	s.fill(a, o)
	at.Name = "" // the object says it
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) { return decide(ctx, at, o) })
}

// context is the context of a command, with uids that are names.
func (s *script) context(a *args, name string) *lifecycle.Context {
	ctx := s.realm.Context()
	ctx.StrictOwners = a.flag("strict-owners")
	if n := a.number("max-object"); n != 0 {
		ctx.MaxObject = int(n)
	}
	ctx.NewUID = func() uid.UID {
		if _, err := uid.Parse(name); err != nil {
			name = "drawn"
		}
		u := uid.MustParse(name)
		for i := 2; s.used[u]; i++ {
			u = uid.MustParse(fmt.Sprintf("%s-%d", name, i))
		}
		return u
	}
	if suffixes := a.list("suffixes"); suffixes != nil {
		ctx.NewSuffix = func() string {
			next := suffixes[0]
			suffixes = append(suffixes[1:], next)
			return next
		}
	}
	return ctx
}

// fill writes what the command says into the object.
func (s *script) fill(a *args, o *coppicev1.Object) {
	m := o.GetMetadata()
	for key, into := range map[string]*string{
		"name": &m.Name, "namespace": &m.Namespace, "generateName": &m.GenerateName, "uid": &m.Uid,
		"apiVersion": &o.ApiVersion, "kind": &o.Kind,
	} {
		if a.has(key) {
			*into = expand(a.text(key))
		}
	}
	for key, into := range map[string]*[]byte{"spec": &o.Spec, "status": &o.Status, "extra": &o.Extra} {
		if a.has(key) {
			*into = []byte(a.text(key))
		}
	}
	if a.has("rv") {
		m.ResourceVersion = uint64(a.number("rv"))
	}
	if a.has("generation") {
		m.Generation = a.number("generation")
	}
	if a.has("created") {
		m.CreationTimestamp = timestamppb.New(a.at("created").Time())
	}
	if a.has("deleted") {
		m.DeletionTimestamp = s.deletionTimestamp(a)
	}
	if a.has("grace") {
		m.DeletionGracePeriodSeconds = nil
		if a.values["grace"][0] != "none" {
			m.DeletionGracePeriodSeconds = proto.Int64(a.number("grace"))
		}
		a.flag("grace")
	}
	for key, into := range map[string]*map[string]string{"labels": &m.Labels, "annotations": &m.Annotations} {
		if a.has(key) {
			*into = map[string]string{}
			for _, pair := range a.list(key) {
				k, v, _ := strings.Cut(pair, "=")
				(*into)[k] = v
			}
		}
	}
	if n := a.number("annotation-bytes"); n > 0 {
		m.Annotations = map[string]string{"a": strings.Repeat("x", int(n)-1)}
	}
	if a.has("finalizers") {
		m.Finalizers = a.list("finalizers")
	}
	fillInitializers(a, m)
	fillExpiry(a, m)
	if a.has("uses") {
		m.Uses = nil
		for _, text := range a.list("uses") {
			m.Uses = append(m.Uses, use(a, text))
		}
	}
	if a.has("owners") {
		m.OwnerReferences = nil
		for _, text := range a.list("owners") {
			m.OwnerReferences = append(m.OwnerReferences, s.reference(a, text))
		}
	}
	if a.flag("no-metadata") {
		o.Metadata = nil
	}
}

// fillInitializers reads initializers=(a, b) and failed=why, or
// result=Success.
func fillInitializers(a *args, m *coppicev1.ObjectMeta) {
	in := &coppicev1.Initializers{Pending: m.GetInitializers().GetPending(), Result: m.GetInitializers().GetResult()}
	if a.has("initializers") {
		in.Pending = nil
		for _, name := range a.list("initializers") {
			in.Pending = append(in.Pending, &coppicev1.Initializer{Name: name})
		}
	}
	if a.has("failed") {
		in.Result = &coppicev1.Status{Status: "Failure", Message: a.text("failed")}
	}
	if a.has("result") {
		in.Result = &coppicev1.Status{Status: a.text("result")}
	}
	if a.flag("no-result") {
		in.Result = nil
	}
	if m.Initializers = in; in.Pending == nil && in.Result == nil {
		m.Initializers = nil
	}
}

func (s *script) deletionTimestamp(a *args) *timestamppb.Timestamp {
	switch a.values["deleted"][0] {
	case "none":
		a.flag("deleted")
		return nil
	case "invalid":
		a.flag("deleted")
		return &timestamppb.Timestamp{Seconds: 1 << 60}
	}
	return timestamppb.New(a.at("deleted").Time())
}

// reference reads an owner reference: see TestScripts.
func (s *script) reference(a *args, text string) *coppicev1.OwnerReference {
	r := &coppicev1.OwnerReference{}
	said := map[string]string{}
	for _, word := range strings.Fields(text) {
		if kind, name, ok := strings.Cut(word, "/"); ok && !strings.Contains(word, "=") {
			kind, group, _ := strings.Cut(kind, ".")
			r.ApiVersion, r.Kind, r.Name = lifecycle.APIVersionOf(group, "v1"), kind, name
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		said[key] = expand(value)
	}
	c := lifecycle.Coordinates{Group: lifecycle.GroupOf(r.ApiVersion), Kind: r.Kind, Name: r.Name, Namespace: a.namespace}
	if in, ok := said["in"]; ok {
		c.Namespace = in
	}
	if k := s.realm.Kinds().Of(c.Group, c.Kind); k != nil && !k.Namespaced() {
		c.Namespace = ""
	}
	r.Uid = s.last[c].String()
	for key, value := range said {
		switch key {
		case "in":
		case "apiVersion":
			r.ApiVersion = value
		case "version":
			r.ApiVersion = lifecycle.APIVersionOf(c.Group, value)
		case "kind":
			r.Kind = value
		case "name":
			r.Name = value
		case "uid":
			r.Uid = value
		case "blocking":
			r.BlockOwnerDeletion = proto.Bool(value == "true")
		case "controller":
			r.Controller = proto.Bool(value == "true")
		default:
			a.d.Fatalf(a.t, "a reference has no %q", key)
		}
	}
	return r
}

// use reads a use: Kind.group/name, and in=NAMESPACE and uid=UID if they are said.
func use(a *args, text string) *coppicev1.Use {
	u := &coppicev1.Use{}
	for _, word := range strings.Fields(text) {
		kind, name, ok := strings.Cut(word, "/")
		key, value, _ := strings.Cut(word, "=")
		switch {
		case ok && !strings.Contains(word, "="):
			u.Name = name
			u.Kind, u.Group, _ = strings.Cut(kind, ".")
		case key == "in":
			u.Namespace = value
		case key == "uid":
			u.Uid = value
		default:
			a.d.Fatalf(a.t, "a use has no %q", key)
		}
	}
	return u
}

// expand reads 254*n as a word of 254 letters n.
func expand(text string) string {
	count, letter, ok := strings.Cut(text, "*")
	if n, err := strconv.Atoi(count); ok && err == nil {
		return strings.Repeat(letter, n)
	}
	return text
}

// patch is a JSON merge patch: its input.
func (s *script) patch(a *args) string {
	at := a.key(s, 0)
	p := &coppicev1.Patch{Name: at.Name, Patch: []byte(a.d.Input), Preconditions: a.preconditions()}
	at.Name = ""
	ctx := s.context(a, "")
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) { return lifecycle.Patch(ctx, at, p) })
}

func (a *args) preconditions() *coppicev1.Preconditions {
	if !a.has("uid") && !a.has("rv") {
		return nil
	}
	return &coppicev1.Preconditions{Uid: a.text("uid"), ResourceVersion: uint64(a.number("rv"))}
}

func (s *script) delete(a *args) string {
	at := a.key(s, 0)
	version := a.text("version")
	o := a.deleteOptions()
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Delete(s.realm.Context(), at, version, o)
	})
}

// deleteOptions are nil if nothing is said.
func (a *args) deleteOptions() *coppicev1.DeleteOptions {
	o := &coppicev1.DeleteOptions{
		PropagationPolicy: a.text("policy"), DryRun: a.list("dryRun"), Preconditions: a.preconditions(),
	}
	if a.has("orphanDependents") {
		o.OrphanDependents = proto.Bool(a.text("orphanDependents") == "true")
	}
	if a.has("grace") {
		o.GracePeriodSeconds = proto.Int64(a.number("grace"))
	}
	if proto.Equal(o, &coppicev1.DeleteOptions{}) {
		return nil
	}
	return o
}

// removeFinalizer is remove-finalizer pods/a finalizer=example.com/x.
func (s *script) removeFinalizer(a *args) string {
	at, finalizer, want := a.key(s, 0), a.text("finalizer"), a.preconditions()
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.RemoveFinalizer(s.realm.Context(), at, finalizer, want)
	})
}

// registerKind is register-kind kind=Bucket.example.com plural=buckets
// versions=(v1, v2:OrphanDependents) cluster, or with a spec as input.
func (s *script) registerKind(a *args) string {
	kind, group, _ := strings.Cut(a.text("kind"), ".")
	spec := lifecycle.KindSpec{Group: group, Kind: kind, Plural: a.text("plural"), Scope: lifecycle.ScopeNamespaced}
	if a.flag("cluster") {
		spec.Scope = lifecycle.ScopeCluster
	}
	for _, version := range a.list("versions") {
		name, deletion, _ := strings.Cut(version, ":")
		spec.Versions = append(spec.Versions, lifecycle.KindVersion{Name: name, DefaultDeletion: lifecycle.DefaultDeletion(deletion)})
	}
	o := lifecycletest.Registration(spec)
	if a.d.Input != "" {
		o.Spec = []byte(a.d.Input)
	}
	if name := a.text("name"); name != "" {
		o.Metadata.Name = name
	}
	decide := decide(lifecycle.Create)
	if a.has("created") { // a kind that comes with everything else
		o.Metadata.CreationTimestamp = timestamppb.New(a.at("created").Time())
		o.Metadata.Uid = "kind-of-" + spec.Plural
		decide = func(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Import(ctx, at, "", o)
		}
	}
	at := lifecycle.Key{Kind: s.realm.Kinds().Of(lifecycle.Group, "Kind")}
	ctx := s.context(a, "kind-of-"+spec.Plural)
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) { return decide(ctx, at, o) })
}
