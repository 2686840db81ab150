package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// decided decides a command, prints what came of it and applies it. With
// "dry-run" it is not applied, with "reply" the object of the reply is printed. With may-block=(RESOURCE:NAMESPACE, all)
// its actor may block the deletion of these owners only.
func (s *script) decided(a *args, decide func() (*lifecycle.Outcome, *lifecycle.Error)) string {
	reply, dryRun := a.flag("reply"), a.flag("dry-run")
	before := s.realm.Clone()
	limited, mayBlock := a.has("may-block"), a.list("may-block")
	out, err := decide()
	if limited && err == nil {
		ctx := s.realm.Context()
		ctx.Actor = "ana"
		err = lifecycle.CheckBlocking(ctx, out, func(k *lifecycle.Kind, namespace string) bool {
			return slices.Contains(mayBlock, "all") || k != nil && slices.Contains(mayBlock, k.Resource()+":"+namespace)
		})
	}
	if err != nil {
		return refusal(err)
	}
	text := lines(s.applied(out.Events), fmt.Sprint(out.Code, unchanged(out)))
	for _, w := range out.Warnings {
		text += "warning: " + w + "\n"
	}
	if reply {
		text += s.reply(a, out)
	}
	if dryRun {
		s.realm = before
	}
	return text
}

func unchanged(out *lifecycle.Outcome) string {
	if out.Changed() {
		return ""
	}
	return " unchanged"
}

func refusal(err *lifecycle.Error) string {
	text := fmt.Sprintf("%d %s: %s\n", err.Reason.Code(), err.Reason, err.Message)
	if len(err.Causes) == 0 {
		return text
	}
	text = fmt.Sprintf("%d %s\n", err.Reason.Code(), err.Reason)
	for _, c := range err.Causes {
		text += fmt.Sprintf("  %s: %s\n", c.Field, c.Message)
	}
	return text
}

// reply is the object of the reply, as the service completes it.
func (s *script) reply(a *args, out *lifecycle.Outcome) string {
	o := out.Object
	for i := range out.Events {
		if n := s.realm.Node(out.Events[i].UID); n != nil {
			o.Node = n
		}
	}
	text, err := manifest.ToJSON(o.API())
	a.must(err)
	return string(text) + "\n"
}

// applied applies events one by one, and says what each did.
func (s *script) applied(events []lifecycle.Event) string {
	text := ""
	for i := range events {
		e := &events[i]
		before := s.realm.Node(e.UID)
		var body *coppicev1.Body
		if before != nil {
			body = s.realm.Body(before)
		}
		s.realm.Apply(events[i : i+1])
		after := s.realm.Node(e.UID)
		if after != nil {
			s.last[after.Coordinates()], s.used[e.UID] = e.UID, true
			s.keys[e.UID] = s.key(after)
		}
		text += fmt.Sprintf("%d %s %s", s.realm.Revision, did(e), s.keys[e.UID])
		switch {
		case after == nil:
			text += details(map[string]string{"finalizers": list(e.Finalizers)}, map[string]string{"finalizers": "[]"}, false)
		case before == nil:
			text += details(fields(after, s.realm.Body(after)), plain(after.APIVersion, s.realm.Clock), false)
		default:
			text += details(fields(after, s.realm.Body(after)), fields(before, body), true)
		}
		text += because(e.Reason, e.Cause) + "\n"
	}
	return text
}

func did(e *lifecycle.Event) string {
	return map[lifecycle.EventType]string{
		lifecycle.ObjectCreated: "created", lifecycle.ObjectUpdated: "updated", lifecycle.DeletionMarked: "marked",
		lifecycle.OwnerReferencesRemoved: "parted", lifecycle.FinalizerRemoved: "unblocked", lifecycle.ObjectDeleted: "removed",
	}[e.Type]
}

func because(r coppicev1.Reason, cause uint64) string {
	if r == coppicev1.Reason_REASON_REQUESTED && cause == 0 {
		return ""
	}
	why := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(r.String(), "REASON_"), "_", " "))
	if cause == 0 {
		return "; because " + why
	}
	return fmt.Sprintf("; because %s (%d)", why, cause)
}

// fields returns the fields of an object that scripts can print.
func fields(n *lifecycle.Node, b *coppicev1.Body) map[string]string {
	grace := "none"
	if n.GracePeriod != nil {
		grace = fmt.Sprint(*n.GracePeriod)
	}
	return map[string]string{
		"apiVersion": n.APIVersion, "generation": fmt.Sprint(n.Generation),
		"created": since(n.CreationTime), "deleted": since(n.DeletionTime), "grace": grace,
		"owners": references(n.Owners), "finalizers": list(n.Finalizers), "uses": uses(n.Uses),
		"initializers": list(n.Initializers), "failed": failure(n, b),
		"imported": since(n.ImportTime), "session": n.ImportSession, "protection": protection(n),
		"expires": since(n.ExpiresAt),
		"labels":  pairs(b.GetLabels()), "annotations": pairs(b.GetAnnotations()), "generateName": b.GetGenerateName(),
		"spec": string(b.GetSpec()), "status": string(b.GetStatus()), "extra": string(b.GetExtra()),
		"applied": string(b.GetApplied()),
	}
}

// protection is who protects an object, with the time as since writes it.
func protection(n *lifecycle.Node) string {
	if n.Protection == nil {
		return "none"
	}
	p := n.Protection
	return strings.Join(append([]string{p.Actor, since(p.Time), p.Reason}, p.Policies...), ",")
}

// failure is why the initialization of an object has failed.
func failure(n *lifecycle.Node, b *coppicev1.Body) string {
	r := b.GetInitializersResult()
	if n.InitializationFailed != (r != nil) {
		return fmt.Sprintf("%t, with the result %v", n.InitializationFailed, r)
	}
	return r.GetMessage()
}

// plain are the fields of an object that has nothing worth telling.
func plain(apiVersion string, created lifecycle.Time) map[string]string {
	return fields(&lifecycle.Node{APIVersion: apiVersion, Generation: 1, CreationTime: created}, nil)
}

func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return list(all)
}

// details are the fields that are not as they were, or not as they are by default.
func details(is, was map[string]string, both bool) string {
	text := ""
	list := []string{
		"apiVersion", "generateName", "generation", "created", "deleted", "grace", "owners", "uses", "finalizers", "initializers", "failed",
		"labels", "annotations", "spec", "status", "extra", "imported", "session", "protection", "expires",
	}
	if !slices.ContainsFunc(list, func(f string) bool { return is[f] != was[f] }) {
		list = append(list, "applied") // if nothing else has changed
	}
	for _, f := range list {
		if is[f] == was[f] {
			continue
		}
		text += fmt.Sprintf(" %s=%s", f, brief(is[f]))
		if both {
			text += fmt.Sprintf(" (was %s)", brief(was[f]))
		}
	}
	if text != "" {
		text = ":" + text
	}
	return text
}

func brief(s string) string {
	switch {
	case s == "":
		return "none"
	case len(s) > 200:
		return fmt.Sprintf("(%d bytes)", len(s))
	}
	return s
}

// references prints owner references as scripts spell them, with the uid.
func references(refs []lifecycle.OwnerReference) string {
	var all []string
	for i := range refs {
		all = append(all, reference(&refs[i]))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// uses prints uses as scripts spell them, with the uid.
func uses(list []lifecycle.Use) string {
	var all []string
	for _, u := range list {
		text := strings.TrimSuffix(u.Kind+"."+u.Group, ".") + "/" + u.Name
		if u.Namespace != "" {
			text += " in=" + u.Namespace
		}
		if u.UID != "" {
			text += " uid=" + u.UID.String()
		}
		all = append(all, text)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func reference(r *lifecycle.OwnerReference) string {
	text := strings.TrimSuffix(r.Kind+"."+r.Group(), ".") + "/" + r.Name + " uid=" + r.UID.String()
	if v := lifecycle.VersionOf(r.APIVersion); v != "v1" {
		text += " version=" + v
	}
	if p := r.Controller.Ptr(); p != nil {
		text += fmt.Sprintf(" controller=%t", *p)
	}
	if p := r.Blocking.Ptr(); p != nil {
		text += fmt.Sprintf(" blocking=%t", *p)
	}
	return text
}

// key is an object as scripts spell it.
func (s *script) key(n *lifecycle.Node) string {
	text := s.realm.Kinds().OfNode(n).Resource() + "/" + n.Name
	if n.Namespace != "" && n.Namespace != "default" {
		text += " in " + n.Namespace
	}
	return text
}

// called is the object with a uid, as scripts spell it, or the uid.
func (s *script) called(u uid.UID) string {
	if n := s.realm.Node(u); n != nil {
		return s.key(n)
	}
	return "uid=" + u.String()
}

// show prints one object, or all of them.
func (s *script) show(a *args) string {
	if len(a.targets) > 0 {
		n := a.node(s, 0)
		return s.shown(n)
	}
	text := ""
	for _, u := range s.realm.UIDs() {
		if n := s.realm.Node(u); !lifecycle.IsRegistration(n) {
			text += s.shown(n)
		}
	}
	if text == "" {
		return "nothing\n"
	}
	return text
}

// read is what a client gets: read pods/a, or read pods/a uninitialized.
func (s *script) read(a *args) string {
	n, err := lifecycle.Read(s.realm, a.key(s, 0), a.flag("uninitialized"))
	if err != nil {
		return refusal(err)
	}
	return s.shown(n)
}

func (s *script) shown(n *lifecycle.Node) string {
	return fmt.Sprintf("%s uid=%s rv=%d%s\n", s.key(n), n.UID, n.Revision,
		details(fields(n, s.realm.Body(n)), plain(n.APIVersion, n.CreationTime), false))
}
