package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// maxGenerateTries is the maximum number of names that are drawn for a generateName (A1.3).
const maxGenerateTries = 8

// Checked is an object that is to be created, with the result of all checks that do not
// need the state. They are done before the writer decides, to take less of its time.
type Checked struct {
	object         *coppicev1.Object
	size           int     // in bytes
	metadata, json []Cause // what is wrong with them
	warnings       []string
	owners         []OwnerReference // each once, if nothing is wrong with the metadata
	applied        []byte           // the record of an apply that creates the object
}

// Check checks an object that is to be created.
func Check(o *coppicev1.Object) Checked {
	o, duplicates, causes := normalJSON(o)
	return checkNormal(o, duplicates, causes)
}

// checkNormal is Check of an object whose JSON was checked, with the warnings and causes of that.
func checkNormal(o *coppicev1.Object, duplicates []string, causes []Cause) Checked {
	meta := o.GetMetadata()
	owners, warnings := dedupOwners(meta.GetOwnerReferences())
	c := Checked{
		object:   o,
		size:     objectcodec.WrittenSize(o),
		metadata: validateMeta(meta, owners),
		json:     causes,
		warnings: append(warnings, duplicates...),
	}
	c.warnings = append(c.warnings, finalizerWarnings(nil, meta.GetFinalizers())...)
	c.warnings = append(c.warnings, protectionWarnings(meta)...)
	if len(c.metadata) == 0 {
		c.owners = ownersOf(owners)
	}
	return c
}

// Create decides a create (A1). at names the kind and the namespace of the
// request, and is completed with the object's name. The object becomes the
// event's: its maps and bytes must not be modified afterwards.
func Create(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	return CreateChecked(ctx, at, new(Check(o)))
}

// CreateChecked is Create of an object that was checked before.
func CreateChecked(ctx *Context, at Key, c *Checked) (*Outcome, *Error) {
	at, o, err := target(at, c.object)
	if err != nil {
		return nil, err
	}
	meta := o.GetMetadata()
	generated := at.Name == "" && meta.GetGenerateName() != ""
	if generated {
		at.Name = generateName(ctx, at, meta.GetGenerateName())
		if at.Name == "" {
			e := at.err(api.ErrAlreadyExists, "%s: no free name with generateName %q was found in %d tries; try again", at.Kind.Resource(), meta.GetGenerateName(), maxGenerateTries)
			e.RetryAfter = generateRetry
			return nil, e
		}
	}
	causes := validateKey(at, meta)
	causes = append(causes, c.metadata...)
	causes = append(causes, validateInitializers(at, meta.GetInitializers())...)
	causes = append(causes, validateExpiry(at, meta)...)
	causes = append(causes, validateContentsFinalizer(nil, meta.GetFinalizers())...)
	causes = append(causes, validateInUseFinalizer(nil, meta.GetFinalizers())...)
	causes = append(causes, validateProtectionFinalizer(nil, meta.GetFinalizers())...)
	causes = append(causes, c.json...)
	if len(c.json) == 0 {
		causes = append(causes, validateGoverning(ctx.View, at, o, nil)...)
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	size := c.size
	if o != c.object {
		size = objectcodec.WrittenSize(o)
	}
	if err := checkSize(ctx, at, size); err != nil {
		return nil, err
	}
	if u := ctx.Lookup(at.Kind, at.Namespace, at.Name); u != "" {
		return nil, errAlreadyExists(at, ctx.Node(u))
	}
	if err := checkStays(ctx, at, ""); err != nil {
		return nil, err
	}
	node := &Node{
		UID:          ctx.NewUID(), // A1.1, A1.2: whatever the client says
		APIVersion:   o.GetApiVersion(),
		Kind:         o.GetKind(),
		Namespace:    at.Namespace,
		Name:         at.Name,
		Generation:   1,
		CreationTime: ctx.Now,
		Owners:       c.owners,
		Finalizers:   nonEmpty(meta.GetFinalizers()),
		Initializers: pendingOf(meta.GetInitializers()),
		Uses:         usesOf(meta.GetUses()),
		ExpiresAt:    expiryOf(meta),
	}
	if err := bindUses(ctx, at, nil, node, false); err != nil {
		return nil, err
	}
	body := bodyOf(o)
	body.Status = nil // written by updatestatus
	body.Applied = c.applied
	unrecorded := keepApplied(ctx, body, size)
	if IsPolicy(node) {
		beginPolicy(ctx, body)
	}
	derive(node, at.Kind, body)
	cover(ctx.View, at.Kind, node, body) // B2.10
	owners, err := checkOwners(ctx, at, nil, node)
	if err != nil {
		return nil, err
	}
	return &Outcome{
		Code: 201,
		Events: append(bound(ctx.View, node), Event{
			Type: ObjectCreated, UID: node.UID, Reason: coppicev1.Reason_REASON_REQUESTED,
			Object: Object{Node: node, Body: body},
		}),
		Object:   Object{Body: body},
		Warnings: slices.Concat(c.warnings, unrecorded, owners, expiryWarnings(node, ctx.Now)),
	}, nil
}

// target completes the request's key with the object's name, and the object
// with the request's kind if it names none, and checks that object and request
// agree (A1.13).
func target(at Key, o *coppicev1.Object) (Key, *coppicev1.Object, *Error) {
	meta := o.GetMetadata()
	at.Name = meta.GetName()
	if o.GetApiVersion() == "" && o.GetKind() == "" {
		o = &coppicev1.Object{
			ApiVersion: at.Kind.APIVersion(), Kind: at.Kind.Kind,
			Metadata: meta, Spec: o.GetSpec(), Status: o.GetStatus(), Extra: o.GetExtra(),
		}
	}
	version := VersionOf(o.GetApiVersion())
	if o.GetApiVersion() != APIVersionOf(at.Kind.Group, version) || o.GetKind() != at.Kind.Kind {
		return at, nil, at.err(api.ErrBadRequest, "the object is a %s %s, but the request is for %s (%s)",
			o.GetApiVersion(), o.GetKind(), at.Kind.Resource(), APIVersionOf(at.Kind.Group, at.Kind.Kind))
	}
	if err := checkVersion(at, version); err != nil {
		return at, nil, err
	}
	if ns := meta.GetNamespace(); ns != at.Namespace && (ns != "" || !at.Kind.Namespaced()) {
		return at, nil, at.err(api.ErrBadRequest, "the namespace of the object (%s) does not match the namespace of the request (%s)", ns, at.Namespace)
	}
	return at, o, nil
}

func checkVersion(at Key, version string) *Error {
	if at.Kind.Serves(version) {
		return nil
	}
	return at.err(api.ErrBadRequest, "%s has no version %q; it has %s", at.Kind.Resource(), version, versionNames(at.Kind))
}

func versionNames(k *Kind) string {
	s := ""
	for i, v := range k.Versions {
		if i > 0 {
			s += ", "
		}
		s += v.Name
	}
	return s
}

// validateKey checks name and namespace of an object that is to be.
func validateKey(k Key, meta *coppicev1.ObjectMeta) []Cause {
	var causes []Cause
	if k.Name == "" {
		causes = append(causes, required("metadata.name", "name or generateName is required"))
	} else {
		causes = append(causes, checkName("metadata.name", k.Name)...)
	}
	switch {
	case k.Kind.Namespaced() && k.Namespace == "":
		causes = append(causes, required("metadata.namespace", ""))
	case k.Kind.Namespaced():
		causes = append(causes, checkLabel("metadata.namespace", k.Namespace)...)
	case k.Namespace != "":
		causes = append(causes, forbidden("metadata.namespace", "not allowed on this type"))
	}
	if g := meta.GetGenerateName(); g != "" {
		causes = append(causes, checkName("metadata.generateName", g)...)
	}
	if k.Kind.Resource() == "namespaces" && k.Name != "" {
		causes = append(causes, checkLabel("metadata.name", k.Name)...)
	}
	return causes
}

// validateGoverning checks, of the kinds that Coppice itself reads, that they can
// be read. was is the node before an update.
func validateGoverning(v View, k Key, o *coppicev1.Object, was *Node) []Cause {
	var causes []Cause
	if isRealm(k.Kind.Group, k.Kind.Kind) {
		causes = append(causes, validateSettings(k.Name, o.GetSpec())...)
	}
	if isPolicy(k.Kind.Group, k.Kind.Kind) {
		causes = append(causes, validatePolicy(v, o, was)...)
	}
	if isKind(k.Kind.Group, k.Kind.Kind) {
		var before *Kind
		if was != nil {
			before = v.Kinds().RegisteredBy(was)
		}
		taken := v.Lookup(k.Kind, k.Namespace, k.Name) != ""
		if len(o.GetMetadata().GetOwnerReferences()) > 0 {
			// A client that may write kinds and not delete them could have it collected.
			causes = append(causes, Cause{Reason: "FieldValueForbidden", Field: "metadata.ownerReferences", Message: "Forbidden: a kind has no owners"})
		}
		causes = append(causes, validateKind(v.Kinds(), k.Name, o.GetSpec(), before, taken)...)
	}
	return causes
}

func checkSize(ctx *Context, k Key, size int) *Error {
	if ctx.MaxObject > 0 && size > ctx.MaxObject {
		return k.err(api.ErrRequestEntityTooLarge, "%s has %d bytes; an object has at most %d", k, size, ctx.MaxObject)
	}
	return nil
}

func errAlreadyExists(k Key, existing *Node) *Error {
	prefix := ""
	if existing != nil && existing.Terminating() {
		prefix = "object is being deleted: " // A1.4
	}
	e := k.err(api.ErrAlreadyExists, "%s%s already exists%s", prefix, k, waitsFor(existing))
	if existing != nil {
		e.UID = existing.UID.String()
	}
	return e
}

// generateName returns a free name with the prefix, or "" if it found none (A1.3).
func generateName(ctx *Context, at Key, prefix string) string {
	const room = maxLabelValue - 5 // as Kubernetes: a generated name is at most a label
	if len(prefix) > room {
		prefix = strings.ToValidUTF8(prefix[:room], "") // do not cut a character in two
	}
	for range maxGenerateTries {
		name := fmt.Sprintf("%s%s", prefix, ctx.NewSuffix())
		if ctx.Lookup(at.Kind, at.Namespace, name) == "" {
			return name
		}
	}
	return ""
}
