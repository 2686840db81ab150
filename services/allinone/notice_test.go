package allinone_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/boottime"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/scanner"
)

// clocks are the clocks of the services: time passes, and the wall clock of one of them steps.
type clocks struct{ passed, graph, scanner atomic.Int64 }

func (k *clocks) configure(dir string) allinone.Config {
	now := func(step *atomic.Int64) func() time.Time {
		return func() time.Time { return time.Now().Add(time.Duration(k.passed.Load() + step.Load())) }
	}
	// Time passes on both clocks of the scanner at once, which reads the wall clock first.
	var read atomic.Int64
	wall := func() time.Time {
		read.Store(k.passed.Load())
		return time.Now().Add(time.Duration(read.Load() + k.scanner.Load()))
	}
	return allinone.Config{
		Dir:   dir,
		Graph: func(c *graph.Config) { c.Now, c.MaxClockSkew = now(&k.graph), 1000*time.Hour },
		Scanner: func(c *scanner.Config) {
			soon(c)
			c.Wall, c.Elapsed = wall, func() time.Duration { return boottime.Now() + time.Duration(read.Load()) }
		},
	}
}

// rounds waits until all policies were evaluated again: a policy without a notice deletes objects that are
// created now, one after another.
func (b *braked) rounds() {
	b.TB.Helper()
	for i := range 2 {
		o := named(fmt.Sprint("canary-", i))
		o.Metadata.Labels = map[string]string{"env": "canary"}
		b.Create(configMaps, "shop", o)
		b.gone(o.GetMetadata().GetName())
	}
}

// there fails the test unless the config maps exist.
func (b *braked) there(when string, names ...string) {
	b.TB.Helper()
	for _, name := range names {
		if _, err := b.objects.Get(b.Ctx, name); err != nil {
			b.TB.Fatalf("%s: %v", when, err)
		}
	}
}

// noticed waits until there is a warning about a config map that a text occurs in.
func (b *braked) noticed(o *coppicev1.Object, text string) {
	b.TB.Helper()
	b.WaitFor("a warning about "+o.GetMetadata().GetName(), func() bool {
		found, err := b.Warnings(b.Ctx, o.GetMetadata().GetUid())
		return err == nil && slices.ContainsFunc(found, func(w client.Warning) bool {
			return w.Reason == lifecycle.WarnExpiry && strings.Contains(w.Message, text)
		})
	})
}

// B6.7, B6.8, B6.9: nothing is deleted before its notice has ended, whatever the wall clocks do and also after a
// restart; a veto postpones, an object that stops matching is not deleted, and one to whose deletion no one agrees is kept.
func TestNotice(t *testing.T) {
	t.Parallel()
	dir, k := t.TempDir(), &clocks{}
	b := startBraked(t, k.configure(dir), 1000)
	policies := b.Resource(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "")
	for name, spec := range map[string]string{
		"preview": `{"kind":"ConfigMap","selector":"env=preview","condition":"true","notice":"24h"}`,
		"quiet":   `{"kind":"ConfigMap","selector":"env=quiet","condition":"true","notice":"1h","onSilence":"keep"}`,
		"zz":      `{"kind":"ConfigMap","selector":"env=canary","condition":"true"}`,
	} {
		if _, err := policies.Apply(b.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(spec)}); err != nil {
			t.Fatal(err)
		}
	}
	made := map[string]*coppicev1.Object{}
	for name, env := range map[string]string{"a": "preview", "vetoed": "preview", "saved": "preview", "kept": "quiet", "agreed": "quiet"} {
		o := named(name)
		o.Metadata.Labels = map[string]string{"env": env}
		made[name] = b.Create(configMaps, "shop", o)
	}
	for _, o := range made {
		b.noticed(o, "has given notice")
	}
	if o, err := b.objects.Get(b.Ctx, "a"); err != nil || o.GetMetadata().GetResourceVersion() != made["a"].GetMetadata().GetResourceVersion() {
		t.Errorf("the notice has changed the object: %v, %v", o, err)
	}
	all := []string{"a", "vetoed", "saved", "kept", "agreed"}

	for name, clock := range map[string]*atomic.Int64{"scanner": &k.scanner, "graph service": &k.graph} {
		clock.Store(int64(48 * time.Hour))
		b.rounds()
		b.there("the clock of the "+name+" has stepped ahead", all...)
		clock.Store(0)
		b.rounds()
	}

	b.Stop()
	b = startBraked(t, k.configure(dir), 0)
	k.passed.Store(int64(23 * time.Hour))
	b.rounds()
	b.there("the notice lasts", all...)
	until := time.Now().Add(72 * time.Hour)
	var reply client.Reply
	if err := b.objects.Veto(b.Ctx, "vetoed", until, "the demo is tomorrow", client.ReplyInto(&reply)); err != nil || reply.Revision == 0 {
		t.Fatalf("revision %d: %v", reply.Revision, err)
	}
	if err := b.objects.Veto(b.Ctx, "canary-1", until, "too late"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a veto about an object that is gone: %v", err)
	}
	must.Succeed(t, b.objects.Agree(b.Ctx, "agreed", "merged"))
	if _, err := b.objects.Patch(b.Ctx, "saved", []byte(`{"metadata":{"labels":{"env":null}}}`)); err != nil {
		t.Fatal(err)
	}
	b.gone("agreed")
	b.rounds()
	if err := b.objects.Veto(b.Ctx, "saved", until, "not needed"); !errors.Is(err, client.ErrConflict) {
		t.Errorf("a veto after the notice was withdrawn: %v", err)
	}
	k.passed.Store(int64(25 * time.Hour))
	b.gone("a")
	b.rounds()
	b.there("a day is over", "vetoed", "saved", "kept")
	k.passed.Store(int64(100 * time.Hour))
	b.gone("vetoed")
	b.rounds()
	b.there("the veto is over", "saved", "kept")
}
