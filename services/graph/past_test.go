package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// shown is a list of objects as text.
func shown(objects []*coppicev1.Object) string {
	var b strings.Builder
	for _, o := range objects {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(o)
		fmt.Fprintf(&b, "%s/%s@%d %x\n", o.GetKind(), o.GetMetadata().GetName(), o.GetMetadata().GetResourceVersion(), text)
	}
	return b.String()
}

// page is what a reader sees at one revision.
func page(ctx context.Context, tb testing.TB, c *client.Client) (text string, revision uint64) {
	tb.Helper()
	p, err := c.Resource(configMaps, "a").ListPage(ctx, client.IncludeUninitialized(true))
	must.Succeed(tb, err)
	if p.Continue != "" {
		tb.Fatal("the list has more than one page")
	}
	return shown(p.Objects), p.Revision
}

// Whatever a client does, a list of the past at each revision is what a list of the present was when
// the realm was at it, and the fold of the log up to it.
func TestPast(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	seed := nightly.Seed(t)
	draw := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	seen := map[uint64]string{} // by revision
	times := map[uint64]time.Time{}
	var revisions []uint64
	live := func(ctx context.Context, c *client.Client) {
		text, revision := page(ctx, t, c)
		if was, ok := seen[revision]; ok && was != text {
			t.Fatalf("revision %d has two lists:\n%s\n%s", revision, was, text)
		} else if !ok {
			seen[revision], times[revision] = text, time.Now()
			revisions = append(revisions, revision)
		}
	}
	act := func(ctx context.Context, steps int) {
		c := a.application()
		objects := c.Resource(configMaps, "a")
		for range steps {
			name := fmt.Sprintf("o%d", draw.IntN(8))
			o := configMap(name)
			o.Spec = fmt.Appendf(nil, `{"n":%d}`, draw.IntN(1000))
			var err error
			switch draw.IntN(6) {
			case 0, 1:
				_, err = objects.Create(ctx, o)
			case 2:
				_, err = objects.Apply(ctx, o)
			case 3:
				_, err = objects.Delete(ctx, name)
			case 4: // one commit with several revisions
				var many []*coppicev1.Object
				for i := range 3 + draw.IntN(3) {
					many = append(many, configMap(fmt.Sprintf("many%d-%d", draw.IntN(1000), i)))
				}
				_, err = objects.CreateBatch(ctx, many)
			case 5:
				o.Metadata.Finalizers = []string{"example.com/f"}
				if _, err = objects.Apply(ctx, o); err == nil {
					_, err = objects.Delete(ctx, name)
				}
			}
			var refused *client.Error
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			live(ctx, c)
		}
	}
	for range 3 { // with states, snapshots and segments between them, and a stream that is cut
		a.with(a.dir, nil, func() { act(a.Ctx, 15) })
		a.segments()
		a.snapshot()
	}
	a.truncate(8)
	a.with(a.dir, nil, func() {
		act(a.Ctx, 5)
		reader := a.as(bus.RoleReader, client.WithTimeout(time.Second))
		commits := revisions
		asked := slices.Clone(revisions)
		draw.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
		for _, revision := range asked[:min(20, len(asked))] {
			past, err := reader.At(a.Ctx, client.Moment{Revision: revision})
			must.Succeed(t, err)
			if past.Past().Revision != revision {
				t.Errorf("the reader saw revision %d, and the past shows %d", revision, past.Past().Revision)
			}
			if text, got := page(a.Ctx, t, past); got != revision || text != seen[revision] {
				t.Errorf("at revision %d the past shows, at %d:\n%s\nand a reader saw:\n%s", revision, got, text, seen[revision])
			}
			if folded, got := reference(a.Ctx, t, past), identitiesOf(a.Ctx, t, past); folded != got {
				t.Errorf("at revision %d the log has:\n%s\nand the past shows:\n%s", revision, folded, got)
			}
			// A revision within a commit stands for the commit.
			i := slices.Index(commits, revision)
			if i > 0 && commits[i-1]+1 < revision {
				within, err := reader.At(a.Ctx, client.Moment{Revision: commits[i-1] + 1})
				must.Succeed(t, err)
				if got := within.Past().Revision; got < commits[i-1]+1 || got > revision {
					t.Errorf("revision %d, of a commit between %d and %d, shows %d", commits[i-1]+1, commits[i-1], revision, got)
				}
			}
			// A time stands for the last commit before it.
			byTime, err := reader.At(a.Ctx, client.Moment{Time: times[revision]})
			must.Succeed(t, err)
			if got := byTime.Past().Revision; got != revision {
				t.Errorf("at %v the realm was at revision %d, and the past shows %d", times[revision], revision, got)
			}
		}
		end := revisions[len(revisions)-1]
		_, err := reader.At(a.Ctx, client.Moment{Revision: end + 1})
		if want := fmt.Sprintf("revision %d is in the future; the realm is at revision %d", end+1, end); !errors.Is(err, client.ErrBadRequest) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("a revision in the future: %v", err)
		}
		if _, err = reader.At(a.Ctx, client.Moment{Time: time.Now().Add(time.Hour)}); !errors.Is(err, client.ErrBadRequest) || !strings.Contains(fmt.Sprint(err), "is in the future; the realm's time is ") {
			t.Errorf("a time in the future: %v", err)
		}
		if _, err = reader.At(a.Ctx, client.Moment{Time: times[revisions[0]].Add(-time.Hour)}); !errors.Is(err, client.ErrExpired) || !strings.Contains(fmt.Sprint(err), "the realm had no commit: its first one is of ") {
			t.Errorf("a time before the realm: %v", err)
		}
	})
	if left, err := filepath.Glob(filepath.Join(a.dir, ".history", "*")); err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

// reference folds the log that a client of the past reads into the names of the objects
// and their revisions, by the events that the client decodes.
func reference(ctx context.Context, tb testing.TB, past *client.Client) string {
	tb.Helper()
	kinds, err := past.Kinds(ctx)
	must.Succeed(tb, err)
	is := map[string]uint64{}
	for c, err := range past.Log().Read(ctx, client.FromSequence(1)) {
		must.Succeed(tb, err)
		for _, e := range client.Events(c.Commit, kinds.ResourceName) {
			if e.Resource == configMaps.String() {
				if is[e.Name] = e.Revision; e.Type == "ObjectDeleted" {
					delete(is, e.Name)
				}
			}
		}
	}
	return fmt.Sprint(is)
}

// identitiesOf lists the objects as reference does.
func identitiesOf(ctx context.Context, tb testing.TB, c *client.Client) string {
	tb.Helper()
	is := map[string]uint64{}
	for o, err := range c.Resource(configMaps, "a").List(ctx) {
		must.Succeed(tb, err)
		is[o.GetMetadata().GetName()] = o.GetMetadata().GetResourceVersion()
	}
	return fmt.Sprint(is)
}
