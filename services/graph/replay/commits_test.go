package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// commits is a log in memory, of a random realm.
type commits struct {
	realm *lifecycletest.Realm
	all   [][]byte // the messages; some are no commits
	chain eventlog.Chain
	first eventlog.Chain // the chain after the first commit
	at    []uint64       // the positions of the commits
	// applied has the commits that a folder writes before it reads the next message.
	applied []bool
}

// Follow implements Source.
func (c *commits) Follow(ctx context.Context, from uint64, visit func(eventlog.Message) error) error {
	for i := from - 1; i < uint64(len(c.all)); i++ {
		m := eventlog.Message{Position: i + 1, Data: c.all[i], Pending: uint64(len(c.all)) - i - 1}
		if i < uint64(len(c.applied)) && c.applied[i] {
			m.Pending = 0
		}
		if err := visit(m); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *commits) last() uint64 { return uint64(len(c.all)) }

// append appends a commit with events that were applied to the realm; before is the realm
// before them.
func (c *commits) append(t must.T, before *lifecycletest.Realm, events []lifecycle.Event) {
	h := eventlog.Header{
		RealmID: [16]byte{1}, ID: [16]byte{1, byte(c.last()), byte(c.last() >> 8)}, Epoch: 1, Time: c.realm.Clock,
		FirstRevision: c.realm.Revision - uint64(len(events)) + 1,
		Sequence:      c.chain.Sequence + 1, Previous: c.chain.Checksum, Key: 1,
	}
	b := eventlog.NewBuilder(h)
	if c.chain.Sequence == 0 {
		c.chain.Key = realmKeys.Newest(h.RealmID)
		b.NewKey(c.chain.Key)
	}
	b.Begin(eventlog.Command{Actor: "ana", Verb: "test"})
	nodes := map[uid.UID]*lifecycle.Node{}
	for i := range events {
		e := &events[i]
		if n := before.Node(e.UID); n != nil && nodes[e.UID] == nil {
			nodes[e.UID] = n
		}
		if e.Object.Node != nil {
			nodes[e.UID] = e.Object.Node
		}
		body, err := state.Encode(e.Object.Body)
		must.Succeed(t, err)
		b.Add(e, nodes[e.UID], "things", body)
	}
	b.End(eventlog.CommandRef{ID: h.ID}, nil)
	commit := b.Bytes()
	must.Succeed(t, c.chain.Follow(c.last()+1, &h, eventlog.KeyID{}, eventlog.Checksum(commit)))
	c.at = append(c.at, c.chain.Position)
	if c.first.Sequence == 0 {
		c.first = c.chain
	}
	message, err := realmKeys.Seal(commit, c.last()+1)
	must.Succeed(t, err)
	c.all = append(c.all, slices.Clone(message))
}

// realmKeys are the keys of the realm of commits.
var realmKeys = eventlog.NewKeys(testkit.Secrets(), "test")

// drawForeign appends messages that are no commits: noise, copies of messages before,
// whole or damaged, and commits that continue the log with another secret.
func (c *commits) drawForeign(t *rapid.T) {
	for range rapid.IntRange(0, 2).Draw(t, "foreign messages") {
		message := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "noise")
		if len(c.all) > 0 {
			earlier := slices.Clone(rapid.SampledFrom(c.all).Draw(t, "earlier"))
			switch rapid.IntRange(0, 3).Draw(t, "sort") {
			case 0:
				message = earlier
			case 1:
				message = earlier[:rapid.IntRange(0, len(earlier)).Draw(t, "length")]
			case 2:
				if len(earlier) > 0 {
					earlier[rapid.IntRange(0, len(earlier)-1).Draw(t, "damaged")] ^= 1
				}
				message = earlier
			}
		}
		if rapid.Bool().Draw(t, "forged") {
			h := eventlog.Header{
				RealmID: [16]byte{1}, ID: [16]byte{9}, Epoch: 1, Time: c.realm.Clock, FirstRevision: c.realm.Revision + 1,
				Sequence: c.chain.Sequence + 1, Previous: c.chain.Checksum, Key: 1,
			}
			b := eventlog.NewBuilder(h)
			b.NewKey(eventlog.KeyID{Number: 2})
			b.Begin(eventlog.Command{Actor: "eve", Verb: "test"})
			b.End(eventlog.CommandRef{}, nil)
			message, _ = eventlog.NewKeys(secret.Secrets{}.Draw(), "test").Seal(b.Bytes(), c.last()+1)
		}
		c.all = append(c.all, message)
	}
}

// configMaps is the kind of the members of families.
func (c *commits) configMaps() *lifecycle.Kind { return c.realm.Kinds().Resource("configmaps") }

// members returns the members of families that exist.
func (c *commits) members() (members []*lifecycle.Node) {
	for _, u := range c.realm.UIDs() {
		if n := c.realm.Node(u); strings.HasPrefix(n.Name, "member-") {
			members = append(members, n)
		}
	}
	return members
}

func refer(o *coppicev1.Object, owner *lifecycle.Node) {
	o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
		ApiVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, Uid: owner.UID.String(),
	})
}

func (c *commits) commanded(t must.T, out *lifecycle.Outcome, err *lifecycle.Error) []lifecycle.Event {
	must.Succeed(t, err)
	c.realm.Apply(out.Events)
	return out.Events
}

// family creates a few objects, each owned by some of the earlier ones. Their namespace may
// be deleted later, or be terminating already.
func (c *commits) family(t *rapid.T) (events []lifecycle.Event) {
	at := lifecycle.Key{Kind: c.configMaps(), Namespace: rapid.SampledFrom([]string{"default", "a"}).Draw(t, "namespace")}
	var family []*lifecycle.Node
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{
			Name: fmt.Sprintf("member-%d-%d", c.realm.Revision, i),
		}}
		for _, owner := range family {
			if rapid.IntRange(0, i).Draw(t, "owned") == 0 {
				refer(o, owner)
			}
		}
		out, err := lifecycle.Create(c.realm.Context(), at, o)
		if at.Namespace == "a" && err != nil {
			return events // the namespace is being deleted
		}
		events = append(events, c.commanded(t, out, err)...)
		family = append(family, out.Events[0].Object.Node)
	}
	return events
}

// adopt adds another member as an owner of a member.
func (c *commits) adopt(t *rapid.T) []lifecycle.Event {
	members := c.members()
	if len(members) == 0 {
		return nil
	}
	n := rapid.SampledFrom(members).Draw(t, "member")
	o := proto.Clone(lifecycle.Object{Node: n, Body: c.realm.Body(n)}.API()).(*coppicev1.Object)
	refer(o, rapid.SampledFrom(members).Draw(t, "owner"))
	out, err := lifecycle.Update(c.realm.Context(), lifecycle.Key{Kind: c.configMaps(), Namespace: n.Namespace}, o)
	if err != nil {
		return nil // it has this owner already, or is terminating
	}
	return c.commanded(t, out, err)
}

// remove deletes a member. Whether the collector then deletes its dependents is drawn.
func (c *commits) remove(t *rapid.T) []lifecycle.Event {
	members := c.members()
	if len(members) == 0 {
		return nil
	}
	at := lifecycle.KeyOf(c.realm, rapid.SampledFrom(members).Draw(t, "member"))
	policy := rapid.SampledFrom([]string{lifecycle.Orphan, lifecycle.Background, lifecycle.Foreground}).Draw(t, "policy")
	out, err := lifecycle.Delete(c.realm.Context(), at, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
	events := c.commanded(t, out, err)
	if rapid.Bool().Draw(t, "settle") {
		events = append(events, c.realm.Settle(lifecycletest.InOrder)...)
	}
	return events
}

// drawCommits draws commits of one or a few commands. Between them it draws families of
// objects that are removed again.
func drawCommits(t *rapid.T) *commits {
	c := &commits{realm: lifecycletest.New()}
	c.realm.Latecomers, c.realm.Containers, c.realm.Restless, c.realm.UUIDs, c.realm.Using = true, true, true, true, true
	hostile := rapid.IntRange(0, 2).Draw(t, "foreign messages") == 0
	if hostile {
		c.drawForeign(t)
	}
	c.append(t, lifecycletest.New(), c.realm.Genesis())
	for range rapid.IntRange(1, 100).Draw(t, "commits") {
		before := c.realm.Clone()
		var events []lifecycle.Event
		for range rapid.IntRange(1, 4).Draw(t, "commands") {
			events = append(events, c.realm.RandomEvents(t)...)
		}
		switch rapid.IntRange(0, 5).Draw(t, "besides") {
		case 1:
			events = append(events, c.family(t)...)
		case 2:
			events = append(events, c.adopt(t)...)
		case 3:
			events = append(events, c.remove(t)...)
		}
		if len(events) > 0 {
			c.append(t, before, events)
		}
		if hostile {
			c.drawForeign(t)
		}
	}
	return c
}
