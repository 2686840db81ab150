package client_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ApplyBatch creates the objects that do not exist, changes the others, and reports each
// object on its own.
func TestApplyBatch(t *testing.T) {
	t.Parallel()
	s := start(t)
	objects := s.objects
	manifest := func(name, label string) *client.Object {
		return &client.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Labels: map[string]string{"tier": label}}}
	}
	stored := func() map[string]string {
		t.Helper()
		labels := map[string]string{}
		for o, err := range objects.List(s.Ctx) {
			must.Succeed(t, err)
			labels[o.GetMetadata().GetName()] = o.GetMetadata().GetLabels()["tier"]
		}
		return labels
	}
	same, err := objects.Apply(s.Ctx, manifest("same", "old"))
	must.Succeed(t, err)
	s.Create(configMaps, "shop", manifest("changed", "old"))
	batch := []*client.Object{manifest("new", "new"), manifest("same", "old"), manifest("changed", "new"), manifest("no name", "new")}

	// Neither a dry run nor an atomic batch with a refused object changes anything.
	before := map[string]string{"same": "old", "changed": "old"}
	results, err := objects.ApplyBatch(s.Ctx, batch, client.DryRun(true))
	if err != nil || len(results) != 4 || !results[0].Created || results[3].Err == nil {
		t.Errorf("dry run: %+v, %v", results, err)
	}
	if results, err := objects.ApplyBatch(s.Ctx, batch, client.Atomic(true)); !errors.Is(refusal(results, err), client.ErrInvalid) {
		t.Errorf("atomic: %+v, %v", results, err)
	}
	if got := stored(); !maps.Equal(got, before) {
		t.Fatalf("the dry run or the atomic batch has written: %v", got)
	}

	var reply client.Reply
	results, err = objects.ApplyBatch(s.Ctx, batch, client.ReplyInto(&reply))
	if err != nil || len(results) != len(batch) {
		t.Fatalf("%+v, %v", results, err)
	}
	for i, want := range []struct {
		name    string
		created bool
		err     error
	}{{"new", true, nil}, {"same", false, nil}, {"changed", false, nil}, {"", false, client.ErrInvalid}} {
		got := results[i]
		if got.Created != want.created || got.Object.GetMetadata().GetName() != want.name || !errors.Is(got.Err, want.err) || got.Revision != reply.Revision {
			t.Errorf("%s: %+v, want %+v at revision %d", batch[i].GetMetadata().GetName(), got, want, reply.Revision)
		}
	}
	if got := results[1].Object.GetMetadata().GetResourceVersion(); got != same.GetMetadata().GetResourceVersion() {
		t.Errorf("applying the same manifest again has changed the object: version %d, was %d", got, same.GetMetadata().GetResourceVersion())
	}
	if got, want := stored(), (map[string]string{"new": "new", "same": "old", "changed": "new"}); !maps.Equal(got, want) {
		t.Errorf("stored are %v, want %v", got, want)
	}
}

// refusal returns the error of a batch or that of one of its objects.
func refusal(results []client.Result, err error) error {
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}
