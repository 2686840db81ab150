package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/selector"
)

// FileFlags say where manifests are.
type FileFlags struct {
	Files     []string
	recursive bool
	matching  string // a label selector of the objects that are read; empty for all
}

// Flags adds -f and -R.
func (f *FileFlags) Flags(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.Files, "filename", "f", nil, "file, directory, pattern or URL of manifests, or - for stdin; may be repeated, or separated by commas")
	c.Flags().BoolVarP(&f.recursive, "recursive", "R", false, "read manifests in subdirectories, too")
}

// MatchingFlag is for commands that write objects, and only those of manifests.
func (f *FileFlags) MatchingFlag(c *cobra.Command) {
	c.Flags().StringVarP(&f.matching, "selector", "l", "", "only objects of the manifests that this label selector selects")
}

// isManifest reports whether a file of a directory is read.
func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// Entries reads all manifests. If a file cannot be read, or is neither YAML nor JSON, it returns
// an error and no manifests, so that a command handles all of them or none.
func (s *Session) Entries(ctx context.Context, f FileFlags, args []string) ([]manifestfile.Entry, error) {
	if len(args) > 0 {
		return nil, UsageErrorf("unexpected argument %q: manifests are named with -f", args[0])
	}
	if len(f.Files) == 0 {
		return nil, UsageErrorf("no manifests are named: write -f FILE, -f DIRECTORY or -f -")
	}
	names := strings.Split(strings.Join(f.Files, ","), ",")
	if slices.Contains(names, "") {
		return nil, UsageErrorf("-f %s has an empty name: write -f FILE, or -f FILE,FILE", strings.Join(f.Files, " -f "))
	}
	if i := slices.Index(names, stdin); i >= 0 && slices.Contains(names[i+1:], stdin) {
		return nil, UsageErrorf("-f - is given twice: stdin can be read once")
	}
	var entries []manifestfile.Entry
	var errs []error
	for _, name := range names {
		paths, err := pathsOf(name, f.recursive)
		errs = append(errs, err)
		for _, path := range paths {
			found, err := s.ReadManifests(ctx, path)
			entries = append(entries, found...)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("no objects in %s", strings.Join(names, ", "))
	}
	labels, err := selector.Parse(f.matching)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	entries = slices.DeleteFunc(entries, func(e manifestfile.Entry) bool {
		return e.Err == nil && !labels.Matches(e.Object.GetMetadata().GetLabels())
	})
	if len(entries) == 0 {
		return nil, fmt.Errorf("no objects in %s match %s", strings.Join(names, ", "), f.matching)
	}
	return entries, s.checkNamespaces(entries)
}

// listedElsewhere is the number of objects of other namespaces that an error lists.
const listedElsewhere = 10

// checkNamespaces returns an error if -n was given and an object names another namespace, as in
// kubectl. A kind that the files register counts as registered.
func (s *Session) checkNamespaces(entries []manifestfile.Entry) error {
	if s.GivenNamespace == "" {
		return nil
	}
	var registered []client.Kind
	for _, e := range entries {
		if k, ok := registration(e); ok {
			registered = append(registered, k)
		}
	}
	var errs []error
	for _, e := range entries {
		namespace := e.Object.GetMetadata().GetNamespace()
		if e.Err != nil || namespace == "" || namespace == s.GivenNamespace {
			continue
		}
		k, ok := s.Kinds.Of(e.Object.GetApiVersion(), e.Object.GetKind())
		if !ok {
			k, ok = kindAmong(registered, e.Object)
		}
		if ok && k.Namespaced() {
			errs = append(errs, fmt.Errorf("%s: %s is in namespace %q, and --namespace names %q: name the namespace %q, or leave --namespace out; nothing was done",
				e.At, terminal.Printable(Item{Entry: e, Kind: k}.Key()), namespace, s.GivenNamespace, namespace))
		}
	}
	if more := len(errs) - listedElsewhere; more > 0 {
		errs = append(errs[:listedElsewhere], fmt.Errorf("and %s more in other namespaces than %q", terminal.Count(more, "object"), s.GivenNamespace))
	}
	return errors.Join(errs...)
}

// stdin is the name of the standard input.
const stdin = "-"

// pathsOf are the files that a name means, in order: a file, those of a directory, those that match
// a pattern, a URL, or stdin.
func pathsOf(name string, recursive bool) ([]string, error) {
	if name == stdin || isURL(name) {
		return []string{name}, nil
	}
	roots := []string{name}
	if _, missing := os.Stat(name); errors.Is(missing, fs.ErrNotExist) {
		var err error
		if roots, err = filepath.Glob(name); err != nil {
			return nil, fmt.Errorf("-f %q: %w", name, err)
		}
		if len(roots) == 0 {
			return nil, missing
		}
	}
	var paths []string
	for _, root := range roots {
		found, err := walk(root, recursive)
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no manifests: files that end in .yaml, .yml or .json; with -R also in directories below", name)
	}
	return paths, nil
}

// walk returns a file, or the manifests of a directory, which may be a symbolic link. It does not
// follow links to directories below, nor read directories such as ..data: a volume of Kubernetes has
// its files there, and links to them.
func walk(root string, recursive bool) (paths []string, err error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{root}, nil
	}
	root += string(filepath.Separator) // follows a link
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == root:
		case d.IsDir() && (!recursive || strings.HasPrefix(d.Name(), "..")):
			return fs.SkipDir
		case !d.IsDir() && isManifest(path):
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// ReadManifests reads the manifests of a file, a URL or stdin.
func (s *Session) ReadManifests(ctx context.Context, path string) ([]manifestfile.Entry, error) {
	switch {
	case path == stdin:
		data, err := Within(ctx, func() ([]byte, error) { return io.ReadAll(s.Stdin) })
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		return manifestfile.Read("stdin", data)
	case isURL(path):
		name, data, err := download(ctx, path)
		if err != nil {
			return nil, err
		}
		return manifestfile.Read(name, data)
	}
	data, err := Within(ctx, func() ([]byte, error) { return os.ReadFile(path) })
	if err != nil {
		return nil, err
	}
	return manifestfile.Read(path, data)
}

// Within returns what read returns, or the error of the context when it ends before. A terminal or a
// pipe may never have anything to read.
func Within[T any](ctx context.Context, read func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		defer close(done)
		got, failed = read()
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// Item is an object of a file, and where it belongs.
type Item struct {
	manifestfile.Entry
	Kind      client.Kind
	Namespace string
	Objects   client.ResourceClient // those of the kind in the namespace
	// Unregistered: the kind is one of those that a dry run would have registered. It has no
	// objects, and the server cannot evaluate requests for them.
	Unregistered bool
}

// Place finds out where an object belongs. An object of a kind with namespaces
// that names none gets the default.
func (s *Session) Place(e manifestfile.Entry, namespace string) (Item, error) {
	if e.Err != nil {
		return Item{}, e.Err
	}
	k, registered := s.Kinds.Of(e.Object.GetApiVersion(), e.Object.GetKind())
	ok := registered
	if !ok {
		k, ok = kindAmong(s.dryRunKinds, e.Object)
	}
	if !ok {
		o := e.Object
		return Item{}, fmt.Errorf("%s: %s %q: the kind %s %s is not registered in realm %q; register it with an object of kind Kind (apiVersion coppice.dev/v1), see docs/kinds.md; `coppice get kinds` shows those that are",
			e.At, o.GetKind(), cmp.Or(o.GetMetadata().GetName(), o.GetMetadata().GetGenerateName()), o.GetApiVersion(), o.GetKind(), s.Realm)
	}
	i := Item{Entry: e, Kind: k, Unregistered: !registered}
	if k.Namespaced() {
		i.Namespace = cmp.Or(e.Object.GetMetadata().GetNamespace(), namespace)
		e.Object.Metadata.Namespace = i.Namespace
	}
	if i.Unregistered {
		return i, i.checkVersion() // as the server would
	}
	return i, nil
}

// PlaceNamed is Place for an object that must have a name and a version that exists.
func (s *Session) PlaceNamed(e manifestfile.Entry, namespace string) (Item, error) {
	i, err := s.Place(e, namespace)
	switch {
	case err != nil:
	case e.Object.GetMetadata().GetName() == "":
		err = fmt.Errorf("%s: metadata.name is missing: it cannot be said which object is meant", e.At)
	case i.Kind.Namespaced() && i.Namespace == "":
		err = fmt.Errorf("%s: %s names no namespace, and with -A it gets none: write metadata.namespace, or name the namespace with -n instead of -A", e.At, terminal.Printable(i.Key()))
	default:
		err = i.checkVersion()
	}
	return i, err
}

// checkVersion returns an error if the kind does not serve the version that the manifest names.
// Requests that name the object alone do not send the version.
func (i Item) checkVersion() error {
	_, version, found := strings.Cut(i.Object.GetApiVersion(), "/")
	if !found {
		version = i.Object.GetApiVersion()
	}
	var names []string
	for _, v := range i.Kind.Versions {
		if v.Name == version {
			return nil
		}
		names = append(names, v.Name)
	}
	return fmt.Errorf("%s: %s has no version %q; it has %s", i.At, client.ResourceOf(i.Kind), version, strings.Join(names, ", "))
}

// Key is the object as people write it.
func (i Item) Key() string {
	m := i.Object.GetMetadata()
	return printing.Key(i.Kind, cmp.Or(m.GetName(), m.GetGenerateName()))
}

// Failed returns the error of a request for the object, with its place in the file, and with its
// key if the error does not name the object.
func (i Item) Failed(err error) error {
	var e *client.Error
	if errors.As(err, &e) && e.Resource == "" {
		return fmt.Errorf("%s: %s: %w", i.At, i.Key(), err)
	}
	return fmt.Errorf("%s: %w", i.At, err)
}

// Registers reports whether the object registers a kind.
func Registers(e manifestfile.Entry) bool {
	o := e.Object
	return o != nil && o.GetKind() == "Kind" && strings.HasPrefix(o.GetApiVersion(), client.KindsResource.Group+"/")
}

// registration returns the kind that an object registers.
func registration(e manifestfile.Entry) (k client.Kind, ok bool) {
	ok = Registers(e) && json.Unmarshal(e.Object.GetSpec(), &k) == nil
	return k, ok
}

// kindAmong returns the last kind of a list that is the kind of an object.
func kindAmong(kinds []client.Kind, o *client.Object) (client.Kind, bool) {
	for _, k := range slices.Backward(kinds) {
		if k.Group == api.GroupOf(o.GetApiVersion()) && k.Kind == o.GetKind() {
			return k, true
		}
	}
	return client.Kind{}, false
}

// LearnKind lets a dry run place objects of the kind that e registers, if it registers one, as if it had been
// written.
func (s *Session) LearnKind(e manifestfile.Entry) {
	if k, ok := registration(e); ok {
		s.dryRunKinds = append(s.dryRunKinds, k)
	}
}

// ReadKinds reads the kinds again, after one was registered.
func (s *Session) ReadKinds(ctx context.Context) (err error) {
	kinds, err := s.Client.Kinds(ctx)
	if err == nil {
		s.Kinds = kinds
	}
	return err
}

// ReadKindsAt reads the kinds at a revision or a later one: the reader of the log may be ahead
// of the replica that answers.
func (s *Session) ReadKindsAt(ctx context.Context, revision uint64) error {
	if err := poll.Until(ctx, func() (bool, error) {
		page, err := s.Client.Resource(client.KindsResource, "").ListPage(ctx, client.Limit(1))
		return page.Revision >= revision, err
	}); err != nil {
		return err
	}
	return s.ReadKinds(ctx)
}
