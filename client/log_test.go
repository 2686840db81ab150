package client_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Reading the log uses up no consumers of its stream, however much is read and
// however often (C10), and returns every commit that mentions what is asked for.
func TestReadLog(t *testing.T) {
	t.Parallel()
	s := start(t)
	js := s.JetStream(bus.RoleGraph)
	consumers := func() int {
		t.Helper()
		stream, err := js.Stream(s.Ctx, bus.LogStream(bus.DefaultRealm))
		must.Succeed(t, err)
		return stream.CachedInfo().State.Consumers
	}
	wanted := s.create("wanted").GetMetadata().GetUid()
	for i := range 300 {
		s.create(fmt.Sprint("other-", i))
	}
	s.delete("wanted")
	before := consumers()
	log := s.As(bus.RoleReader).Log()
	last, err := log.Last(s.Ctx)
	if err != nil || last < 302 {
		t.Fatalf("the log ends at %d, %v", last, err)
	}
	for range 20 {
		all, found := uint64(0), 0
		for c, err := range log.Read(s.Ctx, client.FromSequence(1)) {
			must.Succeed(t, err)
			if all++; c.Sequence != all {
				t.Fatalf("commit %d comes as number %d", c.Sequence, all)
			}
		}
		for c, err := range log.Read(s.Ctx, client.FromSequence(1), client.ForUIDs{wanted}) {
			must.Succeed(t, err)
			found++
			for at, err := range log.Read(s.Ctx, client.FromRevision(c.GetFirstRevision()), client.Limit(1)) {
				if err != nil || at.Sequence != c.Sequence {
					t.Errorf("revision %d is at %d, %v; want %d", c.GetFirstRevision(), at.Sequence, err, c.Sequence)
				}
			}
		}
		if all < last || found != 2 {
			t.Fatalf("read %d commits of %d, and %d of the two about one object", all, last, found)
		}
	}
	for namespace, want := range map[string]int{"shop": 2, "elsewhere": 0} {
		found := 0
		for _, err := range log.Read(s.Ctx, client.FromSequence(1), client.ForName("wanted"), client.ForNamespace(namespace)) {
			must.Succeed(t, err)
			found++
		}
		if found != want {
			t.Errorf("read %d commits about an object of this name in namespace %s, want %d", found, namespace, want)
		}
	}
	beyond := uint64(0)
	for c, err := range log.Read(s.Ctx, client.FromSequence(last), client.ToSequence(last+10)) {
		must.Succeed(t, err)
		beyond = c.Sequence
	}
	if beyond < last { // a new lease of the writer adds a commit
		t.Errorf("a range that ends behind the log ends with %d, want %d", beyond, last)
	}
	// The graph service has one consumer, and a new one with each lease. The server removes the
	// old one later.
	if after := consumers(); after > before+2 {
		t.Errorf("the log has %d consumers, and had %d", after, before)
	}
}

// Undecoded leaves out Commit. Stored has what it decodes from, with and without it.
func TestStoredCommits(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.create("one")
	log := s.As(bus.RoleReader).Log()
	last, err := log.Last(s.Ctx)
	must.Succeed(t, err)
	read := func(undecoded bool) (all []client.LogCommit) {
		t.Helper()
		for c, err := range log.Read(s.Ctx, client.FromSequence(1), client.ToSequence(last), client.Undecoded(undecoded)) {
			if err != nil || (c.Commit == nil) != undecoded {
				t.Fatal(c.Commit, err)
			}
			all = append(all, c)
		}
		return all
	}
	decoded := read(false)
	for i, c := range read(true) {
		content, err := envelope.Open(c.Stored)
		var commit client.Commit
		if err == nil {
			err = proto.Unmarshal(content, &commit)
		}
		if err != nil || !proto.Equal(&commit, decoded[i].Commit) || !bytes.Equal(c.Stored, decoded[i].Stored) || c.Sequence != decoded[i].Sequence {
			t.Errorf("commit %d is stored as %x, %v", c.Sequence, c.Stored, err)
		}
	}
	if len(decoded) < 2 {
		t.Errorf("%d commits", len(decoded))
	}
}
