package realm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// inRealm returns the RunE of a command about the realm that its first argument names, or
// about all realms if it has none.
func inRealm(a *cli.App, do func(ctx context.Context, s *cli.Session, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			a.Realm = args[0]
		}
		s, err := a.Connect(c.Context())
		if err == nil {
			defer s.Conn.Close()
			err = do(c.Context(), s, args)
		}
		return cli.WithCommand(c, err)
	}
}

func listCommand(a *cli.App) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the realms, and which graph service writes each",
		Args:  cobra.NoArgs,
		RunE: inRealm(a, func(ctx context.Context, s *cli.Session, _ []string) error {
			return listRealms(ctx, s, output)
		}),
	}
	c.Flags().StringVarP(&output, "output", "o", cli.FormatTable, "table or name")
	return c
}

func listRealms(ctx context.Context, s *cli.Session, output string) error {
	if output != cli.FormatTable && output != cli.FormatName {
		return cli.UsageErrorf("-o %s: table or name", output)
	}
	realms, err := s.Client.Operations().ListRealms(ctx)
	if err != nil {
		return err
	}
	t := terminal.Table{W: s.Stdout}
	if output == cli.FormatTable {
		if err := t.Text("NAME", "STATE", "AGE", "CREATED-BY", "WRITER"); err != nil {
			return err
		}
	}
	for _, r := range realms {
		row := []string{r.GetName()}
		if output == cli.FormatTable {
			row = append(row, stateName(r), terminal.Age(s.Clock().Sub(time.UnixMicro(r.GetCreated()))), creator(r), orNone(r.GetWriter()))
		}
		if err := t.Text(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

// stateName names the state of a realm.
func stateName(r *client.Realm) string {
	switch r.GetState() {
	case coppicev1.RealmState_REALM_STATE_ACTIVE:
		return "Active"
	case coppicev1.RealmState_REALM_STATE_DELETING:
		return "Deleting"
	case coppicev1.RealmState_REALM_STATE_DELETED:
		return "Deleted"
	}
	return "Unknown"
}

// creator says who created a realm. A realm without a creator was named when a graph service
// started.
func creator(r *client.Realm) string {
	if r.GetCreatedBy() == "" {
		return "--realm"
	}
	return r.GetCreatedBy()
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

func describeCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a realm: its writer, its settings, its pending work",
		Args:  cobra.ExactArgs(1),
		RunE: inRealm(a, func(ctx context.Context, s *cli.Session, args []string) error {
			return describeRealm(ctx, s, args[0])
		}),
	}
}

// settingsResource are the objects of kind Realm, of which a realm has one.
var settingsResource = client.Resource{Group: "coppice.dev", Plural: "realms"}

func describeRealm(ctx context.Context, s *cli.Session, name string) error {
	r, err := listedRealm(ctx, s, name)
	if err != nil {
		return err
	}
	t := terminal.Table{W: s.Stdout}
	rows := [][]string{
		{"Name:", r.GetName()}, {"State:", stateName(r)},
		{"Created:", when(r.GetCreated()) + " by " + creator(r)},
	}
	if r.GetDeleted() != 0 {
		rows = append(rows, []string{"Deleted:", when(r.GetDeleted()) + " by " + r.GetDeletedBy()})
	}
	if r.GetWaiting() != "" {
		rows = append(rows, []string{"Waiting:", r.GetWaiting()})
	}
	rows = append(rows, []string{"Writer:", orNone(r.GetWriter())})
	if r.GetState() == coppicev1.RealmState_REALM_STATE_ACTIVE {
		status, err := s.Client.Status(ctx)
		if err == nil && status.GetPaused() {
			rows = append(rows, []string{"Paused:", "yes: coppice realm resume " + name})
		}
		stored, failed := s.Client.Operations().Storage(ctx)
		rows = append(rows, settingsRows(ctx, s, stored)...)
		rows = append(rows, storage(stored, failed)...)
		rows = append(rows, []string{"Pending:", pending(status, err)})
	}
	for _, row := range rows {
		if err := t.Text(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

// listedRealm returns a realm as the list of realms has it.
func listedRealm(ctx context.Context, s *cli.Session, name string) (*client.Realm, error) {
	realms, err := s.Client.Operations().ListRealms(ctx, client.ForNames{name}, client.IncludeDeleted(true))
	if err != nil {
		return nil, err
	}
	if len(realms) == 0 {
		return nil, &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("there is no realm %q; 'coppice realm list' lists them", name)}
	}
	return realms[0], nil
}

func when(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339) }

// settingsRows describes the settings of the realm, or why they are not shown. stored has what bounds its archive by default;
// nil if that is not known. Without an archive there is none.
func settingsRows(ctx context.Context, s *cli.Session, stored *client.Storage) [][]string {
	o, err := s.Client.Resource(settingsResource, "").Get(ctx, lifecycle.SettingsName)
	text, now := "", lifecycle.DefaultSettings()
	switch {
	case errors.Is(err, client.ErrNotFound):
		text, err = "the defaults", nil
	case err == nil:
		text = string(o.GetSpec())
		now, err = lifecycle.SettingsOf(&coppicev1.Body{Spec: o.GetSpec()})
	}
	if err != nil {
		return [][]string{{"Settings:", "not shown: " + err.Error()}}
	}
	rows := [][]string{{"Settings:", text}, {"Log retention:", now.LogRetention.String()}}
	if now.HasArchiveRetention {
		rows = append(rows, []string{"Archive retention:", now.ArchiveRetention.String()})
	} else if kept := stored.GetArchiveRetention(); kept != "" {
		rows = append(rows, []string{"Archive retention:", kept + ", the default of the graph service"})
	}
	return rows
}

// storage describes what the realm takes on disks, and when its log is cut, or why that is not shown.
func storage(u *client.Storage, err error) [][]string {
	if err != nil {
		return [][]string{{"Storage:", "not shown: " + err.Error()}}
	}
	bytes := func(n uint64) string { return terminal.Bytes(int64(n)) }
	kept := "none: nothing is cut from the log"
	switch {
	case u.GetArchiveError() != "":
		kept = "not shown: " + u.GetArchiveError()
	case u.GetArchived():
		kept = fmt.Sprintf("%s in %s", bytes(u.GetArchiveBytes()), terminal.Count(int(u.GetArchiveEntries()), "entry"))
	}
	rows := [][]string{{"Log:", bytes(u.GetLogBytes())}, {"State:", bytes(u.GetStateBytes())}, {"Archive:", kept}}
	if due := nextCut(u); due != "" {
		rows = append(rows, []string{"Next cut:", due})
	}
	if u.GetDiskBytes() > 0 {
		rows = append(rows, []string{"Disk:", fmt.Sprintf("%s free of %s", bytes(u.GetDiskFreeBytes()), bytes(u.GetDiskBytes()))})
	}
	return rows
}

// nextCut says when the log is cut next, or why a cut that is due is not made yet; "" if nothing is cut.
func nextCut(u *client.Storage) string {
	if why := u.GetCutWaits(); why != "" {
		return "due, and waits: " + why
	}
	var at []string
	if n := u.GetCutAtBytes(); n > 0 {
		at = append(at, "when the log has "+terminal.Bytes(int64(n)))
	}
	if t := u.GetCutAt(); t > 0 {
		at = append(at, "at "+when(t))
	}
	return strings.Join(at, ", or ")
}

// pending describes the pending work of a realm, or why it is not shown.
func pending(status *client.Status, err error) string {
	if err != nil {
		return "not shown: " + err.Error()
	}
	if status.GetIdle() {
		return fmt.Sprintf("none, at revision %d", status.GetRevision())
	}
	return fmt.Sprintf("%s, at revision %d", strings.TrimSpace(cli.PendingText(status)), status.GetRevision())
}
