package realm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func createCommand(a *cli.App) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a realm, and wait until its writer has started",
		Long: `Create a realm, and wait until its writer has started. A realm that was deleted is
created again, with an empty log. A realm whose log exists on the NATS server, as after
a restore of its streams, continues with that log.`,
		Args: cobra.ExactArgs(1),
		RunE: inRealm(a, func(ctx context.Context, s *cli.Session, args []string) error {
			return createRealm(ctx, s, args[0], timeout)
		}),
	}
	c.Flags().DurationVar(&timeout, "wait", time.Minute, "how long to wait for the writer; 0: do not wait")
	return c
}

func createRealm(ctx context.Context, s *cli.Session, name string, timeout time.Duration) error {
	if _, err := s.Client.Operations().CreateRealm(ctx, name); err != nil {
		return err
	}
	if timeout > 0 {
		err := waitUntil(ctx, s, timeout, func(ctx context.Context) (done bool, waiting string, err error) {
			_, err = s.Client.Status(ctx)
			if err != nil && rpc.Retryable(err) {
				return false, err.Error(), nil
			}
			return err == nil, "", err
		})
		if err != nil {
			return fmt.Errorf("realm %s is created, but its writer has not started: %w", name, err)
		}
	}
	_, err := fmt.Fprintf(s.Stdout, "realm %s created\n", name)
	return err
}

func deleteCommand(a *cli.App) *cobra.Command {
	var confirm string
	var withoutArchive bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a realm with its objects and its log",
		Long: `Delete a realm: its objects, its log, and all that is derived from it. The finalizers
of its objects are not called. There is no undo.

The command asks for the name of the realm; --confirm NAME answers it in scripts. Graph
services stop the realm first, and put the rest of its log into their archive. While one
of them still writes the realm, or while the archive fails, the deletion waits.
A deletion that was interrupted continues by itself. The archive keeps what it has of
the realm.

Without an archive, --without-archive is required. It also ends a wait for an archive
that fails.`,
		Example: `  coppice realm delete shop
  coppice realm delete shop --without-archive --confirm shop`,
		Args: cobra.ExactArgs(1),
		RunE: inRealm(a, func(ctx context.Context, s *cli.Session, args []string) error {
			return deleteRealm(ctx, s, args[0], confirm, withoutArchive, timeout)
		}),
	}
	c.Flags().StringVar(&confirm, "confirm", "", "the name of the realm once more, instead of typing it")
	c.Flags().BoolVar(&withoutArchive, "without-archive", false, "delete the realm without archiving the rest of its log")
	c.Flags().DurationVar(&timeout, "wait", time.Minute, "how long to wait until the realm is deleted; 0: do not wait")
	return c
}

func deleteRealm(ctx context.Context, s *cli.Session, name, confirm string, withoutArchive bool, timeout time.Duration) error {
	if r, err := listedRealm(ctx, s, name); err != nil {
		return err
	} else if r.GetState() == coppicev1.RealmState_REALM_STATE_DELETED {
		return &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("realm %q was deleted at %s by %s", name, when(r.GetDeleted()), r.GetDeletedBy())}
	}
	if confirm == "" {
		_, _ = fmt.Fprintf(s.Stderr, "This deletes all objects of realm %s, and its log. Type the name of the realm to delete it: ", name)
		line, err := cli.Within(ctx, func() (string, error) { return bufio.NewReader(s.Stdin).ReadString('\n') })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && line == "" {
			return errors.New("the name of the realm was not typed; nothing is deleted")
		}
		confirm = strings.TrimSpace(line)
	}
	if confirm != name {
		return fmt.Errorf("%q is not the name of the realm, %q; nothing is deleted", confirm, name)
	}
	if _, err := s.Client.Operations().DeleteRealm(ctx, name, client.WithoutArchive(withoutArchive)); err != nil {
		return err
	}
	if timeout == 0 {
		_, err := fmt.Fprintf(s.Stdout, "realm %s is being deleted\n", name)
		return err
	}
	err := waitUntil(ctx, s, timeout, func(ctx context.Context) (done bool, waiting string, err error) {
		r, err := listedRealm(ctx, s, name)
		if err != nil && rpc.Retryable(err) {
			return false, err.Error(), nil
		}
		return r.GetState() != coppicev1.RealmState_REALM_STATE_DELETING, r.GetWaiting(), err
	})
	if err != nil {
		return fmt.Errorf("realm %s is not deleted yet, and graph services continue to delete it: %w", name, err)
	}
	_, err = fmt.Fprintf(s.Stdout, "realm %s deleted\n", name)
	return err
}

// waitUntil calls done every 100 ms until it returns true or an error. It prints what done
// waits for, each text once.
func waitUntil(ctx context.Context, s *cli.Session, timeout time.Duration, done func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	printed := ""
	for {
		ok, waiting, err := done(ctx)
		if ok || err != nil && ctx.Err() == nil {
			return err
		}
		if waiting != printed && ctx.Err() == nil {
			printed = waiting
			_, _ = fmt.Fprintln(s.Stderr, "waiting: "+waiting)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not done after %s: %s", timeout, waiting)
			}
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func setCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME SETTING=VALUE... SETTING-...",
		Short: "Change settings of a realm; SETTING- returns to the default",
		Long: `Change settings of a realm. They are the spec of the object realms.coppice.dev/settings
in the realm, which 'coppice edit' and 'coppice apply' change as well; the log has its
history. docs/semantics.md describes each setting.`,
		Example: `  coppice realm set shop ownerGrace=30m unreachableCycles=collect
  coppice realm set shop ownerGrace-`,
		Args: cobra.MinimumNArgs(2),
		RunE: inRealm(a, func(ctx context.Context, s *cli.Session, args []string) error {
			return setRealm(ctx, s, args[0], args[1:])
		}),
	}
}

func setRealm(ctx context.Context, s *cli.Session, name string, settings []string) error {
	values := map[string]any{}
	for _, arg := range settings {
		key, value, ok := strings.Cut(arg, "=")
		switch reset, isReset := strings.CutSuffix(arg, "-"); {
		case ok && key != "" && strings.TrimSpace(value) == "":
			return cli.UsageErrorf("the setting %s is given with the value %q: write a value, or %s- for the default", key, value, key)
		case ok && key != "":
			values[key] = value
		case isReset && reset != "":
			values[reset] = nil
		default:
			return cli.UsageErrorf("%q is not SETTING=VALUE or SETTING-", arg)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": values})
	if err != nil {
		return err
	}
	objects := s.Client.Resource(settingsResource, "")
	_, err = objects.Patch(ctx, "settings", patch)
	if errors.Is(err, client.ErrNotFound) {
		for key, value := range values {
			if value == nil {
				delete(values, key)
			}
		}
		var spec []byte
		if spec, err = json.Marshal(values); err == nil {
			_, err = objects.Create(ctx, &client.Object{
				ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &client.ObjectMeta{Name: "settings"}, Spec: spec,
			})
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stdout, "realm %s changed\n", name)
	return err
}
