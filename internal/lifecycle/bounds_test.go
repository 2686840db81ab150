package lifecycle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// listed is an object with as many owner references, finalizers or initializers.
func listed(field string, n int) *coppicev1.Object {
	m := &coppicev1.ObjectMeta{Name: "a", Uid: "a"}
	for i := range n {
		switch field {
		case "metadata.ownerReferences":
			m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{
				ApiVersion: "v1", Kind: "Pod", Name: fmt.Sprint("o", i), Uid: fmt.Sprint("u", i),
			})
		case "metadata.finalizers":
			m.Finalizers = append(m.Finalizers, fmt.Sprint("example.com/f", i))
		default:
			if m.Initializers == nil {
				m.Initializers = &coppicev1.Initializers{}
			}
			m.Initializers.Pending = append(m.Initializers.Pending, &coppicev1.Initializer{Name: fmt.Sprint("i", i)})
		}
	}
	return &coppicev1.Object{Metadata: m}
}

type writes = func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)

var writing = map[string]writes{
	"create": lifecycle.Create, "update": lifecycle.Update, "apply": lifecycle.Apply,
	"import": func(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Import(ctx, at, "", o)
	},
}

// imported imports the object that listed returns.
func imported(t *testing.T, r *lifecycletest.Realm, at lifecycle.Key) {
	t.Helper()
	out, err := lifecycle.Import(r.Context(), at, "", listed("metadata.finalizers", 0))
	must.Succeed(t, err)
	r.Apply(out.Events)
}

// TestLists: an object's lists have at most 1,000 elements, by whatever command.
func TestLists(t *testing.T) {
	t.Parallel()
	for name, do := range writing {
		for _, field := range []string{"metadata.ownerReferences", "metadata.finalizers", "metadata.initializers.pending"} {
			if name == "update" && field == "metadata.initializers.pending" {
				continue // only ever fewer
			}
			r := lifecycletest.New()
			at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
			if name == "update" {
				imported(t, r, at)
			}
			for _, n := range []int{1001, 20_000} {
				_, err := do(r.Context(), at, listed(field, n))
				if !errors.Is(err, api.ErrInvalid) || len(err.Causes) != 1 || err.Causes[0].Field != field ||
					!strings.Contains(err.Causes[0].Message, "at most 1000") {
					t.Errorf("%s with %d %s: %v", name, n, field, err)
				}
			}
			if _, err := do(r.Context(), at, listed(field, 1000)); err != nil {
				t.Errorf("%s with 1000 %s: %v", name, field, err)
			}
		}
	}
}

// TestJSONBounds: what objects carry can be read by every reader, by whatever command.
func TestJSONBounds(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for name, do := range writing {
		r := lifecycletest.New()
		at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
		if name != "create" && name != "import" {
			imported(t, r, at)
		}
		for _, c := range []struct {
			spec []byte
			want error
		}{
			{nested(jsonvalue.MaxDepth + 1), jsonvalue.ErrDepth}, {nested(10_000), jsonvalue.ErrDepth}, {[]byte("\"\xff\""), jsonvalue.ErrNotUTF8},
			{nested(jsonvalue.MaxDepth), nil},
		} {
			for field, o := range map[string]*coppicev1.Object{
				"spec":  {Spec: c.spec},
				"extra": {Extra: []byte(`{"data":` + string(c.spec[:len(c.spec)-2]) + `11}`)},
			} {
				if field == "extra" {
					if c.want == nil || c.spec[0] != '"' {
						continue // one level more
					}
					o.Extra = []byte("{\"data\":\"\xff\"}")
				}
				o.Metadata = listed("", 0).Metadata
				_, err := do(r.Context(), at, o)
				switch {
				case c.want == nil && err != nil:
					t.Errorf("%s: %v", name, err)
				case c.want != nil && (!errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Message, field+": ") || !strings.Contains(err.Message, c.want.Error())):
					t.Errorf("%s with %s %.20q: %v, want %v", name, field, c.spec, err, c.want)
				}
			}
		}
	}
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
	imported(t, r, at)
	for _, raw := range [][]byte{nested(jsonvalue.MaxDepth + 1), []byte("\"\xff\"")} {
		if _, err := lifecycle.UpdateStatus(r.Context(), at, &coppicev1.Object{Metadata: listed("", 0).Metadata, Status: raw}); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("a status %.20q: %v", raw, err)
		}
		patch := []byte(`{"spec":` + string(raw) + `}`)
		if _, err := lifecycle.Patch(r.Context(), at, &coppicev1.Patch{Name: "a", Patch: patch}); !errors.Is(err, api.ErrBadRequest) {
			t.Errorf("a patch %.20q: %v", patch, err)
		}
	}
}

// ownersClaimed are n references, to half as many owners, every other one blocking.
func ownersClaimed(n int) []lifecycle.OwnerReference {
	refs := make([]lifecycle.OwnerReference, n)
	for i := range refs {
		refs[i] = lifecycle.OwnerReference{
			APIVersion: fmt.Sprintf("example.com/v%d", i), Kind: "Pod", Name: fmt.Sprint("o", i/2), UID: uid.MustParse(fmt.Sprint("u", i/2)),
			Blocking: lifecycle.Ternary(i % 3),
		}
	}
	return refs
}

// TestEachOwner: long lists, which are indexed, are read as short ones are.
func TestEachOwner(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		refs := ownersClaimed(n)
		var want, got []string
		for i := range refs {
			if !slices.ContainsFunc(refs[:i], func(o lifecycle.OwnerReference) bool { return o.SameOwner(&refs[i]) }) {
				blocking := slices.ContainsFunc(refs, func(o lifecycle.OwnerReference) bool { return o.Blocking == lifecycle.True && o.SameOwner(&refs[i]) })
				want = append(want, fmt.Sprint(refs[i], blocking))
			}
		}
		lifecycle.EachOwner(refs, func(r *lifecycle.OwnerReference, blocking bool) { got = append(got, fmt.Sprint(*r, blocking)) })
		if !slices.Equal(got, want) {
			t.Errorf("%d references:\n got %q\nwant %q", n, got, want)
		}
		claimed := lifecycle.ClaimedBy(refs)
		for i, r := range ownersClaimed(n + 4) {
			if got, want := claimed(&r), i < n+n%2; got != want {
				t.Errorf("%d references: reference %d is among them: %t, want %t", n, i, got, want)
			}
		}
	}
}

// BenchmarkReferences shows that work on an object's references is linear: its
// ns/reference does not grow with their number. (A log may have objects with
// more references than are accepted now.)
func BenchmarkReferences(b *testing.B) {
	for _, n := range []int{1000, 20_000} {
		refs := ownersClaimed(n)
		before := &lifecycle.Node{Owners: refs}
		strip := lifecycle.Event{Type: lifecycle.OwnerReferencesRemoved, References: refs[:n/2]}
		o := listed("metadata.ownerReferences", n)
		for name, do := range map[string]func(){
			"each":  func() { lifecycle.EachOwner(refs, func(*lifecycle.OwnerReference, bool) {}) },
			"strip": func() { strip.After(before, 1) },
			"check": func() { lifecycle.Check(o) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					do()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/reference")
			})
		}
	}
}

// TestAppliedTakesNoRoom: a client may send an object with the record of apply, as a get has returned it. Writes
// ignore it, and so does the limit of the size.
func TestAppliedTakesNoRoom(t *testing.T) {
	t.Parallel()
	record := func(bytes int) []byte { return []byte(`{"f:` + strings.Repeat("x", bytes) + `":{}}`) }
	object := func(applied []byte) *coppicev1.Object {
		return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a", Uid: "a", Applied: applied}}
	}
	for name, do := range writing {
		r := lifecycletest.New()
		at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
		if name == "update" {
			imported(t, r, at)
		}
		if out, err := do(r.Context(), at, object(record(70_000))); err != nil || len(out.Object.Body.GetApplied()) > 0 {
			t.Errorf("%s: %v, and the record is kept", name, err)
		}
	}

	// The next apply removes what the last one had set, although the object was updated with its record.
	r := lifecycletest.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
	do := func(verb string, o *coppicev1.Object) *lifecycle.Outcome {
		t.Helper()
		out, err := writing[verb](r.Context(), at, o)
		if err != nil || len(out.Warnings) > 0 {
			t.Fatalf("%s: %v, %q", verb, err, out.Warnings)
		}
		r.Apply(out.Events)
		return out
	}
	spec := []byte(`{"` + strings.Repeat("x", 25_000) + `":1}`)
	o := object(nil)
	o.Spec = spec
	applied := do("apply", o).Object.Body.GetApplied()
	o.Metadata.Applied, o.Metadata.Uid = applied, ""
	o.Metadata.Labels = map[string]string{"team": "ops"}
	do("update", o)
	if body := do("apply", object(nil)).Object.Body; len(body.GetSpec()) > 0 {
		t.Errorf("apply keeps %d bytes of spec", len(body.GetSpec()))
	}
}
