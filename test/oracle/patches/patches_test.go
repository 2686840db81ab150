// Package patches_test compares JSON merge patches with the library by which
// Kubernetes' API server applies them. It can be built without an API server.
package patches_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
)

// value draws a value. Objects in arrays have null only if nulls.
func value(r *rand.Rand, depth int, null, nulls bool) any {
	switch n := r.IntN(6); {
	case n < 2 && depth > 0:
		o := map[string]any{}
		for range r.IntN(4) {
			o[string(rune('a'+r.IntN(4)))] = value(r, depth-1, null, nulls)
		}
		return o
	case n == 2 && depth > 0:
		list := make([]any, r.IntN(4))
		for i := range list {
			if list[i] = value(r, depth-1, nulls, nulls); r.IntN(4) == 0 {
				list[i] = nil // an element may be null
			}
		}
		return list
	case n == 3 && null:
		return nil
	}
	return r.IntN(3)
}

func object(r *rand.Rand, null, nulls bool) []byte {
	o := map[string]any{}
	for range r.IntN(5) {
		o[string(rune('a'+r.IntN(4)))] = value(r, 3, null, nulls)
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // numbers and maps
	}
	return data
}

func patched(t *testing.T, doc, patch []byte) (ours, theirs any) {
	t.Helper()
	got, err := jsonvalue.MergePatch(doc, patch)
	if err != nil {
		t.Fatal(err)
	}
	want, err := jsonpatch.MergePatch(doc, patch)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &ours); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &theirs); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// Patches without null in objects in arrays have the same result as in Kubernetes.
func TestPatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		doc, patch := object(r, false, false), object(r, true, false)
		if ours, theirs := patched(t, doc, patch); !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%s patched with %s: %v, in Kubernetes %v", doc, patch, ours, theirs)
		}
	}
}

// TestNullInArrays records the deviation: Kubernetes removes members that are
// null from objects in arrays, and keeps elements that are null. RFC 7386 keeps both.
func TestNullInArrays(t *testing.T) {
	ours, theirs := patched(t, []byte(`{}`), []byte(`{"a":[null,{"b":null}]}`))
	if want := map[string]any{"a": []any{nil, map[string]any{"b": nil}}}; !reflect.DeepEqual(ours, any(want)) {
		t.Errorf("got %v, want %v", ours, want)
	}
	if want := map[string]any{"a": []any{nil, map[string]any{}}}; !reflect.DeepEqual(theirs, any(want)) {
		t.Errorf("Kubernetes has %v, want %v: correct docs/semantics.md", theirs, want)
	}
}
