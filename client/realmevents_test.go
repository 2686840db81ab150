package client_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// What a commit records about the realm is an event of its own. Events has none of them, so that
// its events have consecutive revisions.
func TestRealmEvents(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	realm := func(command uint32, v *coppicev1.RealmChanged) *coppicev1.Event {
		return &coppicev1.Event{Command: command, Event: &coppicev1.Event_Realm{Realm: v}}
	}
	epoch := &coppicev1.Command{Actor: "graph", Verb: "epoch"}
	key := &coppicev1.NewKey{Number: 2, Fingerprint: []byte{0xab, 0xcd}}
	for what, of := range map[string]struct {
		commit *client.Commit
		want   []client.LogEvent
	}{
		"a loss, and a key with it": {
			&client.Commit{FirstRevision: 70, NewKey: key, Commands: []*coppicev1.Command{{Actor: "graph", Verb: "accept-loss", Note: "it ends at 9"}, epoch}},
			[]client.LogEvent{
				{Type: "LossAccepted", Actor: "graph", Verb: "accept-loss", Note: "it ends at 9", Detail: "it ends at 9; revisions continue at 70"},
				{Type: "KeyChanged", Actor: "graph", Verb: "epoch", Detail: "key 2, fingerprint abcd"},
			},
		},
		"a new writer": {&client.Commit{FirstRevision: 70, Commands: []*coppicev1.Command{epoch}}, nil},
		"the first commit of a realm": {
			&client.Commit{FirstRevision: 1, NewKey: key, Commands: []*coppicev1.Command{{Actor: "graph", Verb: "genesis"}}}, nil,
		},
		"the first commit of a realm that continues another": {
			&client.Commit{
				NewKey: key, Commands: []*coppicev1.Command{{Actor: "graph", Verb: "origin"}},
				Events: []*coppicev1.Event{realm(0, &coppicev1.RealmChanged{Origin: &coppicev1.Origin{RealmId: []byte{0xc0, 1}, Sequence: 12}, Paused: true})},
			},
			[]client.LogEvent{{Type: "RealmContinued", Actor: "graph", Verb: "origin", Detail: "realm id c001 up to commit 12"}},
		},
		"the end of a pause": {
			&client.Commit{Commands: []*coppicev1.Command{{Actor: "bert", Verb: "patch"}, {Actor: "ana", Verb: "resume"}}, Events: []*coppicev1.Event{realm(1, &coppicev1.RealmChanged{})}},
			[]client.LogEvent{{Type: "RealmResumed", Actor: "ana", Verb: "resume"}},
		},
	} {
		of.commit.Time = at.UnixMicro()
		for i := range of.want {
			of.want[i].Time = at
		}
		if got := client.RealmEvents(of.commit); !reflect.DeepEqual(got, of.want) {
			t.Errorf("%s: got %+v, want %+v", what, got, of.want)
		}
		if got := client.Events(of.commit, func(_, kind string) string { return kind }); len(got) != 0 {
			t.Errorf("%s: Events returns %+v", what, got)
		}
	}
}
