package main

import (
	"context"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
)

// deleteUnreadable deletes an object whose body cannot be decoded.
func (s *session) deleteUnreadable(ctx context.Context, args []string, f deleteFlags) error {
	if f.reason == "" {
		return wrong("--reason is required: the log records why the finalizers of an object were not called")
	}
	if s.at != "" {
		return wrong("--at does not go with --ignore-read-errors: the past cannot be changed")
	}
	mode, err := dryRun(f.dryRun)
	if err != nil {
		return err
	}
	if mode == dryClient {
		return wrong("--dry-run=client does not go with --ignore-read-errors, because the object cannot be read; use --dry-run=server")
	}
	k, name, err := s.one(args)
	if err != nil {
		return err
	}
	var reply client.Reply
	_, err = s.objects(k, f.where.of(k)).DeleteUnreadable(ctx, name, f.reason, client.DryRun(mode.on()), client.ReplyInto(&reply))
	if err != nil {
		return err
	}
	s.warn(objectName{k, name}, reply.Warnings)
	_, err = fmt.Fprintf(s.stdout, "%s deleted%s\n", console.Printable(printing.Key(k, name)), mode.suffix())
	return err
}
