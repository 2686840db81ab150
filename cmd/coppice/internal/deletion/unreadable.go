package deletion

import (
	"context"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// deleteUnreadable deletes an object whose body cannot be decoded.
func deleteUnreadable(ctx context.Context, s *cli.Session, args []string, f deleteFlags) error {
	if f.reason == "" {
		return cli.UsageErrorf("--reason is required: the log records why the finalizers of an object were not called")
	}
	if s.At != "" {
		return cli.UsageErrorf("--at does not go with --ignore-read-errors: the past cannot be changed")
	}
	mode, err := cli.ParseDryRun(f.dryRun)
	if err != nil {
		return err
	}
	if mode == cli.DryClient {
		return cli.UsageErrorf("--dry-run=client does not go with --ignore-read-errors, because the object cannot be read; use --dry-run=server")
	}
	k, name, err := s.OneObject(args)
	if err != nil {
		return err
	}
	var reply client.Reply
	_, err = s.Objects(k, f.Where.NamespaceOf(k)).DeleteUnreadable(ctx, name, f.reason, client.DryRun(mode.On()), client.ReplyInto(&reply))
	if err != nil {
		return err
	}
	s.Warn(cli.ObjectName{Kind: k, Name: name}, reply.Warnings)
	_, err = fmt.Fprintf(s.Stdout, "%s deleted%s\n", terminal.Printable(printing.Key(k, name)), mode.Suffix())
	return err
}
