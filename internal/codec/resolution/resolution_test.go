package resolution_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type object struct {
	uid     uid.UID
	traits  lifecycle.Traits
	classes []lifecycle.Class
}

func read(r *coppicev1.ResolveReply) ([]object, error) {
	var list []object
	err := resolution.Each(r, func(u uid.UID, t lifecycle.Traits, classes []lifecycle.Class) {
		list = append(list, object{u, t, append([]lifecycle.Class(nil), classes...)})
	})
	return list, err
}

// What is appended is read again, in order; and columns from which anything is
// missing, or to which something was added, are refused.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want []object
		reply := &coppicev1.ResolveReply{}
		for range rapid.IntRange(0, 5).Draw(t, "objects") {
			o := object{uid: uid.MustParse(rapid.StringMatching(`[a-z0-9-]{1,40}`).Draw(t, "uid")), traits: lifecycle.Traits(rapid.Byte().Draw(t, "traits"))}
			for range rapid.SampledFrom([]int{0, 1, 3, 200}).Draw(t, "owners") {
				o.classes = append(o.classes, lifecycle.Class(rapid.IntRange(0, 4).Draw(t, "class")))
			}
			resolution.Append(reply, o.uid, o.traits, o.classes)
			want = append(want, o)
		}
		got, err := read(reply)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("read %v, %v; want %v", got, err, want)
		}
		if len(want) == 0 {
			return
		}
		for what, r := range map[string]*coppicev1.ResolveReply{
			"less traits": {Uids: reply.Uids, Traits: reply.Traits[:len(reply.Traits)-1]},
			"more traits": {Uids: reply.Uids, Traits: append(reply.Traits[:len(reply.Traits):len(reply.Traits)], 0)},
			"less uids":   {Uids: reply.Uids[:len(reply.Uids)-1], Traits: reply.Traits},
			"no traits":   {Uids: reply.Uids},
			"no uids":     {Traits: reply.Traits},
		} {
			if _, err := read(r); !errors.Is(err, resolution.ErrMalformed) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	})
}
