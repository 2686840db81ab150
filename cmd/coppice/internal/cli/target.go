package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/labelname"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Target is what a command line means by TYPE, TYPE NAME... or TYPE/NAME:
// objects of one kind, by name, or without names all of them.
type Target struct {
	Kind  client.Kind
	Names []string
	// namespace is where they are; empty: where the flags say.
	namespace string
}

// AllKinds is the type that means every kind whose objects are in namespaces.
const AllKinds = "all"

// Targets reads arguments as kubectl does:
//
//	TYPE[,TYPE...]          all objects of the kinds
//	TYPE[,TYPE...] NAME...  objects by name
//	TYPE/NAME...            objects of one kind or several, by name
func (s *Session) Targets(args []string) ([]Target, error) {
	if len(args) == 0 {
		return nil, UsageErrorf("no type is named: write TYPE, TYPE NAME or TYPE/NAME")
	}
	slashes := 0
	for _, a := range args {
		if strings.Contains(a, "/") {
			slashes++
		}
	}
	if slashes > 0 {
		if slashes < len(args) {
			return nil, UsageErrorf("either TYPE NAME... or TYPE/NAME..., not both")
		}
		return s.byKey(args)
	}
	words, err := typeWords(args[0])
	if err == nil {
		err = checkNames(args[1:])
	}
	if err != nil {
		return nil, err
	}
	var list []Target
	add := func(k client.Kind) { // once: 'all' may be named with a kind of it
		if !slices.ContainsFunc(list, func(t Target) bool { return client.ResourceOf(t.Kind) == client.ResourceOf(k) }) {
			list = append(list, Target{Kind: k, Names: args[1:]})
		}
	}
	for _, word := range words {
		if word == AllKinds {
			for _, k := range s.Kinds.All() {
				if k.Namespaced() {
					add(k)
				}
			}
			continue
		}
		k, err := s.FindKind(word)
		if err != nil {
			return nil, err
		}
		add(k)
	}
	return list, nil
}

// byKey reads TYPE/NAME arguments. Neighbours of one kind are one target.
func (s *Session) byKey(args []string) ([]Target, error) {
	var list []Target
	for _, a := range args {
		word, name, _ := strings.Cut(a, "/")
		if word == "" || name == "" || strings.Contains(name, "/") {
			return nil, UsageErrorf("%q is not TYPE/NAME", a)
		}
		if err := checkNames([]string{name}); err != nil {
			return nil, err
		}
		k, err := s.FindKind(word)
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && client.ResourceOf(list[n-1].Kind) == client.ResourceOf(k) {
			list[n-1].Names = append(list[n-1].Names, name)
			continue
		}
		list = append(list, Target{Kind: k, Names: []string{name}})
	}
	return list, nil
}

// fileTargets are the objects of manifests, by name.
func (s *Session) fileTargets(ctx context.Context, f FileFlags, args []string, w Where) ([]Target, error) {
	entries, err := s.Entries(ctx, f, args)
	if err != nil {
		return nil, err
	}
	var list []Target
	var errs []error
	for _, e := range entries {
		i, err := s.PlaceNamed(e, w.NamespaceOfManifests())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, Target{Kind: i.Kind, namespace: i.Namespace, Names: []string{e.Object.GetMetadata().GetName()}})
	}
	return list, errors.Join(errs...)
}

// TargetsOrFiles are the objects that arguments name, or manifests.
func (s *Session) TargetsOrFiles(ctx context.Context, args []string, f FileFlags, w Where) ([]Target, error) {
	if len(f.Files) > 0 {
		return s.fileTargets(ctx, f, args, w)
	}
	return s.Targets(args)
}

// OneObject reads arguments that must name one object.
func (s *Session) OneObject(args []string) (k client.Kind, name string, err error) {
	list, err := s.Targets(args)
	if err != nil {
		return k, "", err
	}
	if len(list) != 1 || len(list[0].Names) != 1 {
		return k, "", UsageErrorf("name one object: TYPE NAME or TYPE/NAME")
	}
	return list[0].Kind, list[0].Names[0], nil
}

// Where are the flags that say in which namespace.
type Where struct {
	Namespace     string
	AllNamespaces bool
	// Fields selects objects by fields.
	Fields string
	// Uninitialized: also objects that are not initialized.
	Uninitialized bool
	// Applied: also what the last apply has set.
	Applied bool
	// Unreadable: also objects that are named and whose body cannot be decoded. Only their
	// names, namespaces and uids are read.
	Unreadable bool
	// Implicit: also namespaces that are named and have objects and no Namespace object.
	Implicit bool
}

// DefaultNamespace is the namespace that -n names by default.
const DefaultNamespace = "default"

// Flags adds -n and, with all, -A.
func (w *Where) Flags(c *cobra.Command, all bool) {
	c.Flags().StringVarP(&w.Namespace, "namespace", "n", DefaultNamespace, "namespace")
	if all {
		c.Flags().BoolVarP(&w.AllNamespaces, "all-namespaces", "A", false, "in all namespaces")
	}
}

// FieldFlag adds --field-selector.
func (w *Where) FieldFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.Fields, "field-selector", "", "select by metadata.name and metadata.namespace: metadata.name!=web")
}

// UninitializedFlag is for commands that show objects.
func (w *Where) UninitializedFlag(c *cobra.Command) {
	c.Flags().BoolVar(&w.Uninitialized, "include-uninitialized", false, "also objects that wait for their initializers")
}

// NamespaceOf is the namespace in which to look for objects of a kind, empty for all
// and for kinds without.
func (w *Where) NamespaceOf(k client.Kind) string {
	if w.AllNamespaces || !k.Namespaced() {
		return ""
	}
	return w.Namespace
}

// NamespaceOfManifests is the namespace of the objects of manifests that name none: none with -A.
func (w *Where) NamespaceOfManifests() string {
	if w.AllNamespaces {
		return ""
	}
	return w.Namespace
}

// CheckNamed refuses -A with names: an object in a namespace is named with its namespace.
func (w *Where) CheckNamed(targets []Target) error {
	for _, t := range targets {
		if w.AllNamespaces && t.Kind.Namespaced() && len(t.Names) > 0 && t.namespace == "" {
			return UsageErrorf("-A does not go with names: name the namespace with -n")
		}
	}
	return nil
}

// Each calls visit for the objects of a target, as they are read.
func (s *Session) Each(ctx context.Context, t Target, w Where, selector string, visit func(*coppicev1.Object) error) error {
	fields, err := ParseFieldSelector(w.Fields)
	if err != nil {
		return err
	}
	t, narrowed := fields.narrow(t, w, selector)
	if t.namespace != "" {
		w.Namespace, w.AllNamespaces = t.namespace, false
	}
	objects := s.Objects(t.Kind, w.NamespaceOf(t.Kind))
	if len(t.Names) == 0 {
		for o, err := range objects.List(ctx, client.LabelSelector(selector), client.IncludeUninitialized(w.Uninitialized), client.IncludeApplied(w.Applied)) {
			if err == nil && fields.Matches(o) {
				err = visit(o)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var errs []error
	for _, name := range t.Names {
		o, err := objects.Get(ctx, name, client.IncludeUninitialized(w.Uninitialized), client.IncludeApplied(w.Applied))
		if uid := unreadable(err); w.Unreadable && uid != "" {
			o, err = &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: w.NamespaceOf(t.Kind), Uid: uid}}, nil
		}
		if !narrowed {
			err = s.IfImplicit(ctx, t.Kind, name, err)
		}
		if is := (*implicitError)(nil); w.Implicit && errors.As(err, &is) {
			o, err = printing.ImplicitNamespace(name), nil
		}
		if err == nil && fields.Matches(o) {
			err = visit(o)
		}
		if err != nil && (!narrowed || !errors.Is(err, client.ErrNotFound)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkNames refuses names that no object can have. It is not stricter than the server.
func checkNames(names []string) error {
	for _, name := range names {
		if !utf8.ValidString(name) {
			return UsageErrorf("%q is not the name of an object: it is not UTF-8", name)
		}
		if err := lifecycle.CheckName(name); err != nil {
			return UsageErrorf("%q is not the name of an object: %s", name, err.Message)
		}
	}
	return nil
}

// typeWords splits the types of an argument, TYPE[,TYPE...].
func typeWords(arg string) ([]string, error) {
	words := strings.Split(arg, ",")
	if slices.Contains(words, "") {
		return nil, UsageErrorf("%q has an empty type: write TYPE, or TYPE,TYPE", arg)
	}
	return words, nil
}

// FindKind returns the kind that a word means. If there is none the error names the kind
// whose name is nearest.
func (s *Session) FindKind(word string) (client.Kind, error) {
	k, err := s.Kinds.Find(word)
	if !errors.Is(err, client.ErrUnknownKind) {
		return k, err
	}
	var words []string
	for _, k := range s.Kinds.All() {
		words = append(words, k.Plural, k.Singular, client.ResourceOf(k).String())
	}
	if meant := DidYouMean(strings.ToLower(word), words); meant != "" {
		return k, fmt.Errorf("realm %s has no kind %q%s", s.Realm, word, meant)
	}
	if !labelname.IsSubdomain(strings.ToLower(word)) {
		return k, fmt.Errorf("realm %s has no kind %q, which cannot be the name of one; 'coppice api-resources' lists them", s.Realm, word)
	}
	return k, fmt.Errorf("realm %s has no kind %q; 'coppice api-resources' lists them, and docs/kinds.md says how to register one", s.Realm, word)
}
