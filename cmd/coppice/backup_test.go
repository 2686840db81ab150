package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// backedUp is an installation with two realms and an archive, in a directory of `coppice up`.
type backedUp struct {
	*testing.T
	ctx   context.Context
	stack *allinone.Stack
}

// startBackedUp starts the services on the data in a directory.
func startBackedUp(t *testing.T, dir string) *backedUp {
	t.Helper()
	store, err := dirstore.Create(filepath.Join(dir, "archive"))
	must.Succeed(t, err)
	b := &backedUp{T: t, ctx: testkit.Context(t)}
	b.stack, err = allinone.Start(b.ctx, allinone.Config{Dir: dir, Port: -1, Realms: []string{bus.DefaultRealm, "shop"}, Graph: func(c *graph.Config) {
		c.Archive, c.LeaseTTL = store, testkit.Timeout
	}})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = b.stack.Stop() })
	must.Succeed(t, b.stack.Await(b.ctx))
	return b
}

// stop stops the services.
func (b *backedUp) stop() {
	b.Helper()
	must.Succeed(b, b.stack.Stop())
}

// run runs a command, against the services if there are any.
func (b *backedUp) run(stdin string, args ...string) (stdout string, err error) {
	var out, said bytes.Buffer
	root := newRoot(strings.NewReader(stdin), &out, &said)
	root.SetArgs(args)
	if err := root.ExecuteContext(b.ctx); err != nil {
		return out.String(), fmt.Errorf("coppice %s: %w: %s", strings.Join(args, " "), err, &said)
	}
	return out.String(), nil
}

// ask is run with the address of the server, and without an error.
func (b *backedUp) ask(args ...string) string {
	b.Helper()
	out, err := b.run("", append(args, "--server", b.stack.Server().URL(), "--actor", "ana")...)
	must.Succeed(b, err)
	return out
}

// backupMade is what coppice backup -o json prints.
type backupMade struct {
	Backup string
	Realms []struct {
		Name     string
		Revision uint64
	}
}

// Backups that are made while clients write, two at once, have all that was acknowledged before them, and each is restored as the
// realms were at its revisions.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	dir, place := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	b := startBackedUp(t, dir)
	var mu sync.Mutex
	acknowledged := map[string]int{} // by realm
	writing, stop := context.WithCancel(b.ctx)
	var writers errgroup.Group
	for _, realm := range []string{bus.DefaultRealm, "shop"} {
		writers.Go(func() error {
			for i := 0; writing.Err() == nil; i++ {
				manifest := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c-%06d, namespace: default, finalizers: [example.com/held]}}", i)
				if _, err := b.run(manifest, "create", "-f", "-", "--realm", realm, "--server", b.stack.Server().URL(), "--actor", "ana"); err != nil {
					return err
				}
				if i%3 == 0 {
					if _, err := b.run("", "delete", "cm", fmt.Sprintf("c-%06d", i), "-n", "default", "--realm", realm, "--server", b.stack.Server().URL(), "--actor", "ana"); err != nil {
						return err
					}
				}
				mu.Lock()
				acknowledged[realm] = i + 1
				mu.Unlock()
			}
			return nil
		})
	}
	testkit.WaitFor(t, b.ctx, "some objects", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return acknowledged["shop"] > 20 && acknowledged[bus.DefaultRealm] > 20
	})
	mu.Lock()
	before := map[string]int{"shop": acknowledged["shop"], bus.DefaultRealm: acknowledged[bus.DefaultRealm]}
	mu.Unlock()
	var outputs [2]string
	var backups errgroup.Group
	for i := range outputs {
		backups.Go(func() (err error) {
			outputs[i], err = b.run("", "backup", place, "-o", "json", "--server", b.stack.Server().URL(), "--actor", "ana")
			return err
		})
	}
	must.Succeed(t, backups.Wait())
	stop()
	must.Succeed(t, writers.Wait())
	list := func(realm string, more ...string) string {
		return b.ask(append([]string{"get", "cm", "-A", "-o", "yaml", "--realm", realm}, more...)...)
	}
	want := make([]map[string]string, len(outputs))
	ids := make([]string, len(outputs))
	for i, out := range outputs {
		var c backupMade
		must.Succeed(t, json.Unmarshal([]byte(out), &c))
		ids[i] = c.Backup
		want[i] = map[string]string{}
		for _, r := range c.Realms {
			want[i][r.Name] = list(r.Name, "--at", fmt.Sprint(r.Revision))
			if n := strings.Count(want[i][r.Name], "name: c-"); n < before[r.Name] {
				t.Errorf("backup %d has %d objects of realm %s, and %d were acknowledged before", i, n, r.Name, before[r.Name])
			}
		}
	}
	b.stop()
	must.Succeed(t, os.RemoveAll(dir))
	for i, id := range ids {
		restored := filepath.Join(t.TempDir(), "restored")
		_, err := b.run("", "restore-backup", place, "--data", restored, "--backup", id)
		must.Succeed(t, err)
		again := startBackedUp(t, restored)
		b.stack = again.stack
		for realm, objects := range want[i] {
			if got := list(realm); got != objects || objects == "" {
				t.Errorf("backup %d: realm %s has\n%s\nwant\n%s", i, realm, got, objects)
			}
			b.ask("verify", "--realm", realm)
		}
		b.stop()
	}
}

// The commands of the drill in docs/operations.md do what it says, in their order.
func TestBackupDrill(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	must.Succeed(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Back up and restore\n")
	_, drill, ok := strings.Cut(section, "\n```sh\n")
	drill, _, _ = strings.Cut(drill, "```")
	work := t.TempDir()
	b := startBackedUp(t, filepath.Join(work, "data"))
	b.ask("import", "-f", "../../examples/shop")
	want := b.ask("get", "pods", "-A", "-o", "yaml")
	steps := 0
	for line := range strings.Lines(drill) {
		line, _, _ = strings.Cut(line, "#")
		args := strings.Fields(strings.NewReplacer("/backup/coppice", filepath.Join(work, "backup"), "./restored", filepath.Join(work, "restored")).Replace(line))
		if len(args) == 0 || args[0] != "coppice" {
			t.Fatalf("%q is no command", line)
		}
		args = args[1:]
		steps++
		switch args[0] {
		case "up":
			must.Succeed(t, os.RemoveAll(filepath.Join(work, "data")))
			b.stack = startBackedUp(t, args[2]).stack
		case "restore-backup", "archive":
			if args[0] == "restore-backup" && args[2] == "--data" {
				b.stop()
			}
			_, err := b.run("", args...)
			must.Succeed(t, err)
		default:
			b.ask(args...)
		}
	}
	if got := b.ask("get", "pods", "-A", "-o", "yaml"); !ok || steps < 8 || got != want {
		t.Errorf("after %d steps there is\n%s\nwant\n%s", steps, got, want)
	}
	b.ask("delete", "deploy", "web", "-n", "shop")
}
