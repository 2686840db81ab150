package operate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ParkedCommand returns the command `coppice parked`.
func ParkedCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "parked",
		GroupID: "operate",
		Short:   "List, retry or drop work that kept failing",
		Long: `List work that kept failing and left its queue, such as the call of a
finalizer that reported a permanent error. Fix the cause, then retry the work.`,
		Args: cobra.NoArgs,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, _ []string) error { return listParked(ctx, s) }),
	}
	a.ClientFlags(c)
	show := &cobra.Command{
		Use:               "show ID",
		Short:             "Show a piece of work with its content",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeParked(a),
		RunE:              a.InSession(func(ctx context.Context, s *cli.Session, args []string) error { return showParked(ctx, s, args[0]) }),
	}
	var all bool
	retry := &cobra.Command{
		Use:               "retry ID... | --all",
		Short:             "Put parked work back into its queue",
		ValidArgsFunction: completeParked(a),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			if all == (len(args) > 0) {
				return cli.UsageErrorf("no parked work is named: write an ID, or --all")
			}
			return eachParked(ctx, s, args, "queued again", s.Client.Operations().RetryParked)
		}),
	}
	retry.Flags().BoolVar(&all, "all", false, "retry all parked work")
	drop := &cobra.Command{
		Use:   "drop ID...",
		Short: "Drop parked work",
		Long: `Drop parked work. This does not complete the pending work behind it: the call of a
finalizer that still blocks an object is published again after some time.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeParked(a),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return eachParked(ctx, s, args, "dropped", s.Client.Operations().DropParked)
		}),
	}
	for _, sub := range []*cobra.Command{show, retry, drop} {
		a.ClientFlags(sub)
		c.AddCommand(sub)
	}
	return c
}

// parkedWork is a piece of work, and its place in the stream.
type parkedWork struct {
	id uint64
	*coppicev1.Parked
}

// completion returns the id, and what a shell shows next to it. The client that parks work writes its subject.
func (p parkedWork) completion() string {
	return fmt.Sprintf("%d\t%s", p.id, terminal.Printable(p.GetSubject()))
}

// parkedMessages iterates over all parked work.
func parkedMessages(ctx context.Context, s *cli.Session, content bool) iter.Seq2[parkedWork, error] {
	return func(yield func(parkedWork, error) bool) {
		for after := uint64(0); ; {
			page, err := s.Client.Operations().ListParked(ctx, client.AfterID(after), client.IncludeContent(content))
			if err != nil {
				yield(parkedWork{}, err)
				return
			}
			for _, p := range page.GetParked() {
				if !yield(parkedWork{p.GetId(), p.GetWork()}, nil) {
					return
				}
			}
			if after = page.GetNext(); after == 0 {
				return
			}
		}
	}
}

// parkedID parses the id of parked work.
func parkedID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, cli.UsageErrorf("%q is not the id of parked work; 'coppice parked' lists them", text)
	}
	return id, nil
}

// parkedByID reads one piece of work by its id.
func parkedByID(ctx context.Context, s *cli.Session, text string) (parkedWork, error) {
	id, err := parkedID(text)
	if err != nil {
		return parkedWork{}, err
	}
	page, err := s.Client.Operations().ListParked(ctx, client.ForIDs{id}, client.IncludeContent(true))
	if err == nil && len(page.GetParked()) == 0 {
		err = &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("no parked work has the id %d; 'coppice parked' lists all parked work", id)}
	}
	if err != nil {
		return parkedWork{}, err
	}
	return parkedWork{id, page.GetParked()[0].GetWork()}, nil
}

func listParked(ctx context.Context, s *cli.Session) error {
	t := terminal.Table{W: s.Stdout}
	n := 0
	for p, err := range parkedMessages(ctx, s, false) {
		if err != nil {
			return err
		}
		if n++; n == 1 {
			if err := t.Text("ID", "AGE", "ATTEMPTS", "SUBJECT", "BY", "ERROR"); err != nil {
				return err
			}
		}
		err := t.Text(strconv.FormatUint(p.id, 10), terminal.Age(s.Clock().Sub(time.UnixMicro(p.GetTime()))), fmt.Sprint(p.GetAttempts()), p.GetSubject(), p.GetBy(), p.GetError())
		if err != nil {
			return err
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintln(s.Stderr, "nothing is parked")
	}
	return t.Flush()
}

func showParked(ctx context.Context, s *cli.Session, id string) error {
	p, err := parkedByID(ctx, s, id)
	if err != nil {
		return err
	}
	content, err := contentOf(s, p)
	if err != nil {
		content = fmt.Sprintf("%q (%v)\n", p.GetMessage(), err)
	}
	_, err = fmt.Fprintf(s.Stdout, "ID:        %d\nParked:    %s\nSubject:   %s\nAttempts:  %d\nBy:        %s\nError:     %s\nContent:\n%s", p.id,
		time.UnixMicro(p.GetTime()).Local().Format("2006-01-02 15:04:05"), terminal.Printable(p.GetSubject()), p.GetAttempts(), terminal.Printable(p.GetBy()), terminal.Printable(p.GetError()), content)
	return err
}

// contentOf returns the content of the work as text.
func contentOf(s *cli.Session, p parkedWork) (string, error) {
	m := lookup.Chunk(s.Realm, p.GetSubject())
	if m == nil {
		var call coppicev1.FinalizeCall
		if err := manifest.UnmarshalMessage(p.GetMessage(), &call); err != nil {
			return "", err
		}
		b, err := manifestfile.ToYAML(call.GetObject())
		return fmt.Sprintf("finalizer %s of %s, marked at revision %d\n%s", terminal.Printable(call.GetFinalizer()), terminal.Printable(call.GetResource()), call.GetRevision(), b), err
	}
	if err := proto.Unmarshal(p.GetMessage(), m); err != nil {
		return "", err
	}
	return prototext.MarshalOptions{Multiline: true}.Format(m), nil
}

// parkedBatch is how many pieces of work one request names.
const parkedBatch = 100

// eachParked calls do for each named piece of work, or for all.
func eachParked(ctx context.Context, s *cli.Session, texts []string, done string, do func(context.Context, []uint64, ...client.ChangeParkedOption) ([]error, error)) error {
	var ids []uint64
	for _, text := range texts {
		id, err := parkedID(text)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if len(texts) == 0 {
		for p, err := range parkedMessages(ctx, s, false) {
			if err != nil {
				return err
			}
			ids = append(ids, p.id)
		}
	}
	failed := cli.Failures{App: s.App}
	for batch := range slices.Chunk(ids, parkedBatch) {
		results, err := do(ctx, batch)
		if err != nil {
			return err
		}
		for i, id := range batch {
			if results[i] != nil {
				failed.Add(fmt.Errorf("parked work %d: %w", id, results[i]))
				continue
			}
			if _, err := fmt.Fprintf(s.Stdout, "%d %s\n", id, done); err != nil {
				return err
			}
		}
	}
	if failed.Count > 0 {
		return fmt.Errorf("%d of %d not %s", failed.Count, len(ids), done)
	}
	return nil
}

// completeParked completes ids.
func completeParked(a *cli.App) cobra.CompletionFunc {
	return a.CompleteInSession(func(ctx context.Context, s *cli.Session, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		for p, err := range parkedMessages(ctx, s, false) {
			if err != nil || len(ids) == cli.CompletionMax {
				break
			}
			ids = append(ids, p.completion())
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
}
