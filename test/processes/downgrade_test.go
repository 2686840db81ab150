//go:build unix

package processes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// downgrade is an installation of this version, in which graph services of an older version are started.
type downgrade struct {
	*deployment
	older olderPrograms
	js    jetstream.JetStream
	tree  *tree
}

// newDowngrade starts a graph service of this version, with objects, and returns the service. Services of both versions have
// the same flags.
func newDowngrade(t *testing.T, older olderPrograms, flags ...string) (*downgrade, *service) {
	t.Helper()
	d := &downgrade{deployment: newDeployment(t), older: older}
	d.nats()
	newer := d.graph(flags...)
	newer.ready()
	d.tree = d.plant(2, 2, 0)
	js, err := jetstream.New(d.conn(bus.RoleGraph, nil))
	must.Succeed(t, err)
	d.js = js
	return d, newer
}

// graphOf starts a graph service of the older version.
func (d *downgrade) graphOf(name string, flags ...string) *process {
	d.t.Helper()
	args := append([]string{bus.RoleGraph, "--data", filepath.Join(d.dir, name), "--lease", "10m"}, flags...)
	return d.deployment.older(d.older.coppice, "older-"+name, bus.RoleGraph, args...)
}

// end returns what the stream of a realm's log ends with.
func (d *downgrade) end(realm string) (last, messages uint64) {
	d.t.Helper()
	s, err := d.js.Stream(d.ctx, bus.LogStream(realm))
	must.Succeed(d.t, err)
	return s.CachedInfo().State.LastSeq, s.CachedInfo().State.Msgs
}

// refuses starts a graph service of the older version, which must end with an error that has all of these texts, and leave the
// log of the realm as it is.
func (d *downgrade) refuses(realm, name string, says []string, flags ...string) {
	d.t.Helper()
	last, messages := d.end(realm)
	p := d.graphOf(name, flags...)
	if code := p.code(); code == 0 {
		d.t.Errorf("%s of the older version ended without an error", name)
	}
	for _, what := range says {
		if out := p.output(); !strings.Contains(out, what) {
			d.t.Errorf("%s of the older version does not say %q: %s", name, what, out)
		}
	}
	if is, count := d.end(realm); is != last || count != messages {
		d.t.Errorf("the log of %s ends at %d with %d messages, and ended at %d with %d", realm, is, count, last, messages)
	}
}

// continues starts this version again with a data directory. It must have all objects.
func (d *downgrade) continues(name string, flags ...string) *service {
	d.t.Helper()
	again := d.service(bus.RoleGraph, append([]string{"--data", filepath.Join(d.dir, name)}, flags...)...)
	again.ready()
	if n := len(d.tree.left(pods, 10)); n != 4 {
		d.t.Errorf("%d Pods are there, want 4", n)
	}
	return again
}

// verify compares the state of a realm with its log.
func (d *downgrade) verify(realm string) {
	d.t.Helper()
	if out := d.operate("verify", "--realm", realm); !strings.Contains(out, "state equals the log") {
		d.t.Errorf("verify says %q", out)
	}
}

// What docs/upgrade.md names as without a way back to versions since test/mixed/LOG_BASE.
func TestNoWayBack(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes) // it builds the older version
	t.Parallel()
	older := olderOf(t, "LOG_BASE")

	// A realm that continues another log has a commit of version 3 of the log format. The older version serves it, and does not
	// archive it.
	t.Run("restored", func(t *testing.T) {
		t.Parallel()
		archive := "file://" + filepath.Join(t.TempDir(), "archive")
		must.Succeed(t, os.Mkdir(strings.TrimPrefix(archive, "file://"), 0o700))
		d, newer := newDowngrade(t, older, "--archive", archive)
		recording := filepath.Join(d.dir, "recording")
		record := d.command("record", bus.RoleOperator, password(bus.RoleOperator), "record", "--out", recording)
		if code := record.code(); code != 0 {
			t.Fatalf("coppice record ended with exit code %d: %s", code, record.output())
		}
		replay := d.command("replay", bus.RoleGraph, password(bus.RoleGraph), "replay", recording, "--realm", "again", "--archive", archive)
		if code := replay.code(); code != 0 {
			t.Fatalf("coppice replay ended with exit code %d: %s", code, replay.output())
		}
		d.operate("realm", "create", "again")
		d.operate("realm", "resume", "again")
		newer.terminate()
		for _, name := range []string{"graph", "empty"} { // the state of the one and the snapshot for the other have that commit
			p := d.graphOf(name, "--archive", archive).serving()
			p.ready()
			p.says("cannot archive the log; trying again")
			p.says("has version 3 of the log format, and this program reads versions up to 2: replace it by the version of Coppice that has written the commit")
			p.terminate()
		}
		d.continues("graph", "--archive", archive)
		d.verify("again")
	})

	// This version records cuts in a bucket, and the older one in the stream.
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		d, newer := newDowngrade(t, older)
		newer.terminate()
		log, err := eventlog.OpenExisting(d.ctx, d.js, bus.DefaultRealm, eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm))
		must.Succeed(t, err)
		must.Succeed(t, log.Announce(d.ctx, 2, time.Now()))
		must.Succeed(t, log.Cut(d.ctx, 2))
		d.refuses(bus.DefaultRealm, "empty", []string{"the log begins at sequence 3 of its stream", "the commits between cannot be read", "Name the archive"})
		d.continues("graph")
	})
}

// The commit in test/mixed/EARLY_BASE is from before the log had a version in its format. It does not know this log, and does
// not refuse it: docs/upgrade.md says so. It replaces the state, and takes a commit of 4 KiB or more, which is
// compressed, for an empty one.
func TestNoWayBackBeforeTheFreeze(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes)
	t.Parallel()
	d, newer := newDowngrade(t, olderOf(t, "EARLY_BASE"))
	newer.terminate()
	says := []string{"there is no secret for key 0"} // it has read the first commit as empty, and with it the key
	d.refuses(bus.DefaultRealm, "empty", says)
	d.refuses(bus.DefaultRealm, "graph", append(says, "the state has the layout of another version", "the state was rebuilt from the log"))
	d.continues("replacement") // not with the state that it has replaced
	d.verify(bus.DefaultRealm)
}

// A realm that began with the commit in test/mixed/EARLY_BASE is worse: after a compressed commit of this version at the end of the
// log, that commit writes behind it, and ends the log for every version.
func TestLogAfterDowngradeBeforeTheFreeze(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes)
	t.Parallel()
	older := olderOf(t, "EARLY_BASE")
	d := &downgrade{deployment: newDeployment(t), older: older}
	d.nats()
	early := d.graphOf("graph").serving()
	early.ready()
	d.create(d.application(), deployments, object("early"))
	early.terminate()
	newer := d.graph()
	newer.ready()
	d.tree = d.plant(10, 20, 0)
	newer.terminate()
	early = d.graphOf("empty").serving()
	early.ready()
	page, err := d.application().Resource(pods, namespace).ListPage(d.ctx, client.Limit(1))
	must.Succeed(t, err)
	if len(page.Objects) > 0 {
		t.Error("the commit of EARLY_BASE has the Pods: docs/upgrade.md says that it has not")
	}
	early.terminate()
	broken := d.command("graph-again", bus.RoleGraph, password(bus.RoleGraph), bus.RoleGraph, "--data", filepath.Join(d.dir, "graph"))
	if code := broken.code(); code == 0 || !strings.Contains(broken.output(), "the log is broken at sequence") {
		t.Errorf("this version ended with exit code %d: %s", code, broken.output())
	}
}
