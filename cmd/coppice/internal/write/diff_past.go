package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// diffPast writes the differences between two states of the past, of a namespace or of all.
func diffPast(ctx context.Context, s *cli.Session, args []string, namespace string) error {
	var states []*client.Client
	var kinds []client.Kind
	for _, arg := range args {
		m, err := s.Moment(ctx, arg)
		if err != nil {
			return err
		}
		past, err := s.Past(ctx, m)
		if err != nil {
			return err
		}
		ks, err := past.Kinds(ctx)
		if err != nil {
			return err
		}
		states = append(states, past)
		kinds = append(kinds, ks.All()...)
	}
	from, to := states[0], states[1]
	slices.SortFunc(kinds, func(a, b client.Kind) int { return cmp.Compare(a.Resource(), b.Resource()) })
	kinds = slices.CompactFunc(kinds, func(a, b client.Kind) bool { return a.Resource() == b.Resource() })
	differ := false
	for _, k := range kinds {
		if namespace != "" && !k.Namespaced() {
			continue
		}
		r := client.ResourceOf(k)
		for pair, err := range pairs(ctx, from.Resource(r, namespace), to.Resource(r, namespace)) {
			if err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
			differ = true
			if err := writePair(s, k, from.Past(), to.Past(), pair); err != nil {
				return err
			}
		}
	}
	if differ {
		return &cli.ExitError{Code: 1}
	}
	return nil
}

// pair is an object before and after; nil where it does not exist.
type pair struct{ before, after *coppicev1.Object }

func (p pair) either() *coppicev1.ObjectMeta { return cmp.Or(p.after, p.before).GetMetadata() }

// pairs iterates over the objects of a resource that differ. It reads both lists at the same time,
// which are ordered alike, and has a page of each in memory.
func pairs(ctx context.Context, from, to client.ResourceClient) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		before, stopBefore := iter.Pull2(objectsIn(ctx, from))
		defer stopBefore()
		after, stopAfter := iter.Pull2(objectsIn(ctx, to))
		defer stopAfter()
		b, err, _ := before()
		a, fail, _ := after()
		for {
			if err = errors.Join(err, fail); err != nil {
				yield(pair{}, err)
				return
			}
			var p pair
			switch order := compare(b, a); {
			case b == nil && a == nil:
				return
			case order < 0:
				p.before = b
			case order > 0:
				p.after = a
			default:
				p = pair{b, a}
			}
			if !proto.Equal(p.before, p.after) && !yield(p, nil) {
				return
			}
			if p.before != nil {
				b, err, _ = before()
			}
			if p.after != nil {
				a, fail, _ = after()
			}
		}
	}
}

// compare compares the places of two objects in a list; the end of a list, nil, is behind all.
func compare(a, b *coppicev1.Object) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	x, y := a.GetMetadata(), b.GetMetadata()
	return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
}

// objectsIn lists the objects of a resource, none if its kind is not registered.
func objectsIn(ctx context.Context, r client.ResourceClient) iter.Seq2[*coppicev1.Object, error] {
	return func(yield func(*coppicev1.Object, error) bool) {
		for o, err := range r.List(ctx, client.IncludeUninitialized(true)) {
			if errors.Is(err, client.ErrUnknownKind) {
				return
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// writePair writes the difference of an object.
func writePair(s *cli.Session, k client.Kind, from, to *client.Past, p pair) error {
	m := p.either()
	var texts [2][]byte
	for i, o := range []*coppicev1.Object{p.before, p.after} {
		if o == nil {
			continue
		}
		var err error
		if texts[i], err = manifestText(o); err != nil {
			return err
		}
	}
	name := named(k, m.GetNamespace(), m.GetName())
	_, err := s.Stdout.Write(unified(fmt.Sprintf("revision %d %s", from.Revision, name), texts[0], fmt.Sprintf("revision %d %s", to.Revision, name), texts[1]))
	return err
}
