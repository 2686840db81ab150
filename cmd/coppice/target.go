package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// target is what a command line means by TYPE, TYPE NAME... or TYPE/NAME:
// objects of one kind, by name, or without names all of them.
type target struct {
	kind  client.Kind
	names []string
	// namespace is where they are; empty: where the flags say.
	namespace string
}

// allKinds is the type that means every kind whose objects are in namespaces.
const allKinds = "all"

// targets reads arguments as kubectl does:
//
//	TYPE[,TYPE...]          all objects of the kinds
//	TYPE[,TYPE...] NAME...  objects by name
//	TYPE/NAME...            objects of one kind or several, by name
func (s *session) targets(args []string) ([]target, error) {
	if len(args) == 0 {
		return nil, wrong("no type is named: write TYPE, TYPE NAME or TYPE/NAME")
	}
	slashes := 0
	for _, a := range args {
		if strings.Contains(a, "/") {
			slashes++
		}
	}
	if slashes > 0 {
		if slashes < len(args) {
			return nil, wrong("either TYPE NAME... or TYPE/NAME..., not both")
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
	var list []target
	add := func(k client.Kind) { // once: 'all' may be named with a kind of it
		if !slices.ContainsFunc(list, func(t target) bool { return client.ResourceOf(t.kind) == client.ResourceOf(k) }) {
			list = append(list, target{kind: k, names: args[1:]})
		}
	}
	for _, word := range words {
		if word == allKinds {
			for _, k := range s.Kinds.All() {
				if k.Namespaced() {
					add(k)
				}
			}
			continue
		}
		k, err := s.find(word)
		if err != nil {
			return nil, err
		}
		add(k)
	}
	return list, nil
}

// byKey reads TYPE/NAME arguments. Neighbours of one kind are one target.
func (s *session) byKey(args []string) ([]target, error) {
	var list []target
	for _, a := range args {
		word, name, _ := strings.Cut(a, "/")
		if word == "" || name == "" || strings.Contains(name, "/") {
			return nil, wrong("%q is not TYPE/NAME", a)
		}
		if err := checkNames([]string{name}); err != nil {
			return nil, err
		}
		k, err := s.find(word)
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && client.ResourceOf(list[n-1].kind) == client.ResourceOf(k) {
			list[n-1].names = append(list[n-1].names, name)
			continue
		}
		list = append(list, target{kind: k, names: []string{name}})
	}
	return list, nil
}

// fileTargets are the objects of manifests, by name.
func (s *session) fileTargets(ctx context.Context, f fileFlags, args []string, w where) ([]target, error) {
	entries, err := s.entries(ctx, f, args)
	if err != nil {
		return nil, err
	}
	var list []target
	var errs []error
	for _, e := range entries {
		i, err := s.placeNamed(e, w.ofManifests())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, target{kind: i.kind, namespace: i.namespace, names: []string{e.Object.GetMetadata().GetName()}})
	}
	return list, errors.Join(errs...)
}

// targetsOrFiles are the objects that arguments name, or manifests.
func (s *session) targetsOrFiles(ctx context.Context, args []string, f fileFlags, w where) ([]target, error) {
	if len(f.files) > 0 {
		return s.fileTargets(ctx, f, args, w)
	}
	return s.targets(args)
}

// one reads arguments that must name one object.
func (s *session) one(args []string) (k client.Kind, name string, err error) {
	list, err := s.targets(args)
	if err != nil {
		return k, "", err
	}
	if len(list) != 1 || len(list[0].names) != 1 {
		return k, "", wrong("name one object: TYPE NAME or TYPE/NAME")
	}
	return list[0].kind, list[0].names[0], nil
}

// where are the flags that say in which namespace.
type where struct {
	namespace string
	all       bool
	// fields selects objects by fields.
	fields string
	// uninitialized: also objects that are not initialized.
	uninitialized bool
	// applied: also what the last apply has set.
	applied bool
	// unreadable: also objects that are named and whose body cannot be decoded. Only their
	// names, namespaces and uids are read.
	unreadable bool
	// implicit: also namespaces that are named and have objects and no Namespace object.
	implicit bool
}

const defaultNamespace = "default"

func (w *where) flags(c *cobra.Command, all bool) {
	c.Flags().StringVarP(&w.namespace, "namespace", "n", defaultNamespace, "namespace")
	if all {
		c.Flags().BoolVarP(&w.all, "all-namespaces", "A", false, "in all namespaces")
	}
}

func (w *where) fieldFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.fields, "field-selector", "", "select by metadata.name and metadata.namespace: metadata.name!=web")
}

// uninitializedFlag is for commands that show objects.
func (w *where) uninitializedFlag(c *cobra.Command) {
	c.Flags().BoolVar(&w.uninitialized, "include-uninitialized", false, "also objects that wait for their initializers")
}

// of is the namespace in which to look for objects of a kind, empty for all
// and for kinds without.
func (w *where) of(k client.Kind) string {
	if w.all || !k.Namespaced() {
		return ""
	}
	return w.namespace
}

// ofManifests is the namespace of the objects of manifests that name none: none with -A.
func (w *where) ofManifests() string {
	if w.all {
		return ""
	}
	return w.namespace
}

// checkNamed refuses -A with names: an object in a namespace is named with its namespace.
func (w *where) checkNamed(targets []target) error {
	for _, t := range targets {
		if w.all && t.kind.Namespaced() && len(t.names) > 0 && t.namespace == "" {
			return wrong("-A does not go with names: name the namespace with -n")
		}
	}
	return nil
}

// each calls visit for the objects of a target, as they are read.
func (s *session) each(ctx context.Context, t target, w where, selector string, visit func(*coppicev1.Object) error) error {
	fields, err := parseFieldSelector(w.fields)
	if err != nil {
		return err
	}
	t, narrowed := fields.narrow(t, w, selector)
	if t.namespace != "" {
		w.namespace, w.all = t.namespace, false
	}
	objects := s.objects(t.kind, w.of(t.kind))
	if len(t.names) == 0 {
		for o, err := range objects.List(ctx, client.LabelSelector(selector), client.IncludeUninitialized(w.uninitialized), client.IncludeApplied(w.applied)) {
			if err == nil && fields.matches(o) {
				err = visit(o)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var errs []error
	for _, name := range t.names {
		o, err := objects.Get(ctx, name, client.IncludeUninitialized(w.uninitialized), client.IncludeApplied(w.applied))
		if uid := unreadable(err); w.unreadable && uid != "" {
			o, err = &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: w.of(t.kind), Uid: uid}}, nil
		}
		if !narrowed {
			err = s.ifImplicit(ctx, t.kind, name, err)
		}
		if is := (*implicitError)(nil); w.implicit && errors.As(err, &is) {
			o, err = printing.ImplicitNamespace(name), nil
		}
		if err == nil && fields.matches(o) {
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
			return wrong("%q is not the name of an object: it is not UTF-8", name)
		}
		if err := lifecycle.CheckName(name); err != nil {
			return wrong("%q is not the name of an object: %s", name, err.Message)
		}
	}
	return nil
}

// typeWords splits the types of an argument, TYPE[,TYPE...].
func typeWords(arg string) ([]string, error) {
	words := strings.Split(arg, ",")
	if slices.Contains(words, "") {
		return nil, wrong("%q has an empty type: write TYPE, or TYPE,TYPE", arg)
	}
	return words, nil
}
