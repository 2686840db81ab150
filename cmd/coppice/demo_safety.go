package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/internal/poll"
)

// safeIn is the namespace of the act about safe deletion.
const safeIn = "production"

// safeSettings allow the collector one deletion of each kind an hour.
const safeSettings = `apiVersion: coppice.dev/v1
kind: Realm
metadata:
  name: settings
spec:
  brake: {objects: 1, window: 1h}
`

// safeStep is a command of the act, as a user would call it.
type safeStep struct {
	about   string // a sentence before the command
	command string // without "coppice", and without the flags that connect
	shows   string // text that the output must have
	refused bool   // the command must fail
	// left are the objects that must be left in the end, by the number of each kind; "" for no check.
	left string
}

// safety is the act about safe deletion: a deletion is planned, refused because of a
// protection, paused by a brake, finished, and undone.
func (d *demo) safety(ctx context.Context, dir, url string) error {
	settings := filepath.Join(dir, "settings.yaml")
	if err := os.WriteFile(settings, []byte(safeSettings), 0o600); err != nil {
		return err
	}
	if _, err := d.populate(ctx, safeIn); err != nil {
		return err
	}
	before, err := d.left(ctx, safeIn)
	if err != nil {
		return err
	}
	const all = "configmaps 1, deployments.apps 1, pods 3, replicasets.apps 1, services 1"
	run := func(steps ...safeStep) error {
		for _, s := range steps {
			if err := d.step(ctx, url, s); err != nil {
				return fmt.Errorf("coppice %s: %w", s.command, err)
			}
		}
		return nil
	}
	if err := run(
		safeStep{about: "A Deployment in production, with what it owns.", command: "tree deploy/web -n " + safeIn, shows: "3 pods", left: all},
		safeStep{about: "ana protects it. Each DELETE of it is refused now.", command: "protect deploy/web -n " + safeIn + " --reason 'customers use it'", shows: "deployments.apps/web protected"},
		safeStep{command: "delete deploy/web -n " + safeIn, shows: "is protected by ana", refused: true, left: all},
		safeStep{about: "The realm gets a brake: the collector may delete one object of each kind an hour.", command: "apply -f " + settings, shows: "realms.coppice.dev/settings"},
		safeStep{about: "The Deployment is to go after all. A plan shows what that means, and that the brake will stop it.", command: "unprotect deploy/web -n " + safeIn + " --reason 'customers have moved'", shows: "deployments.apps/web unprotected"},
		safeStep{command: "plan delete deploy/web -n " + safeIn, shows: "the brake of pods lets 1 of 3 through", left: all},
		safeStep{command: "delete deploy/web -n " + safeIn, shows: "deployments.apps/web deleted", left: "pods 2"},
		safeStep{about: "One Pod is gone. The brake pauses the deletion of the others until an operator releases it.", command: "brake status", shows: "tripped"},
		safeStep{about: "The operator has looked at what is left, and releases the brake.", command: "brake release pods", shows: "2 deletions pending", left: "-"},
	); err != nil {
		return err
	}
	revision, err := d.deletionOf(ctx, demoDeployment)
	if err != nil {
		return err
	}
	undo := "restore --cascade-of " + strconv.FormatUint(revision, 10)
	if err := run(
		safeStep{about: "It was a mistake after all. The log has all that the deletion removed.", command: undo + " --dry-run", shows: "deployments.apps/web"},
		safeStep{command: undo, shows: "7", left: all},
		safeStep{command: "tree deploy/web -n " + safeIn, shows: "3 pods"},
	); err != nil {
		return err
	}
	after, err := d.left(ctx, safeIn)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("restored are %v, want %v", after, before)
	}
	return say(d.App, "\n%s: the same objects with the same owners, under new uids\n", d.Ink().Green("as it should be"))
}

// step says what a step is about, runs its command, prints its output, and checks it.
func (d *demo) step(ctx context.Context, url string, s safeStep) error {
	if s.about != "" {
		if err := say(d.App, "\n%s\n", s.about); err != nil {
			return err
		}
	}
	if err := say(d.App, "\n$ coppice %s\n", s.command); err != nil {
		return err
	}
	var out bytes.Buffer
	root := newRoot(strings.NewReader(""), &out, &out)
	root.SetArgs(append(words(s.command), "--server", url, "--actor", "ana"))
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, cli.ErrReported) {
		fmt.Fprintf(&out, "coppice: %s\n", cli.ErrorText(err))
	}
	if _, err := d.Stdout.Write(out.Bytes()); err != nil {
		return err
	}
	switch {
	case err == nil && s.refused:
		return errors.New("it succeeded, and should have been refused")
	case err != nil && !s.refused:
		return err
	case !strings.Contains(out.String(), s.shows):
		return fmt.Errorf("the output has no %q", s.shows)
	case s.left == "":
		return nil
	}
	return d.awaitCounts(ctx, strings.Trim(s.left, "-"))
}

// words splits a command at spaces outside of quotes.
func words(command string) (list []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			list = append(list, part)
			continue
		}
		list = append(list, strings.Fields(part)...)
	}
	return list
}

// awaitCounts waits until the namespace has so many objects of each kind.
func (d *demo) awaitCounts(ctx context.Context, want string) error {
	var is string
	if err := poll.Until(ctx, func() (bool, error) {
		left, err := d.left(ctx, safeIn)
		is = counts(left)
		return is == want, err
	}); err != nil {
		return fmt.Errorf("left are %q, want %q: %w", is, want, err)
	}
	return nil
}

// counts are the numbers of objects of each kind, as in "configmaps 1, pods 3".
func counts(left map[string]string) string {
	n := map[string]int{}
	for key := range left {
		kind, _, _ := strings.Cut(key, "/")
		n[kind]++
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		list = append(list, fmt.Sprintf("%s %d", kind, n[kind]))
	}
	return strings.Join(list, ", ")
}

// deletionOf returns the revision at which the deletion of an object began.
func (d *demo) deletionOf(ctx context.Context, key string) (uint64, error) {
	h, err := d.History(ctx)
	if err != nil {
		return 0, err
	}
	events, _, err := h.Tail(ctx, 1000, history.AllCommits, client.LogOptions{Namespace: safeIn}, func(e *client.LogEvent) bool {
		return e.Namespace == safeIn && e.Key() == key && (e.Type == "DeletionMarked" || e.Type == "ObjectDeleted")
	})
	if err != nil {
		return 0, err
	}
	if len(events) == 0 {
		return 0, fmt.Errorf("the log has no deletion of %s", key)
	}
	return events[0].Revision, nil
}
