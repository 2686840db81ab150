package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func (a *app) parkedCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "parked",
		GroupID: "operate",
		Short:   "See work that kept failing, and replay or drop it",
		Long: `Parked lists pieces of work that kept failing, and were taken out of the way: the
call of a finalizer that said that trying again does not help, for example. Mend
what is wrong, and replay them.`,
		Args: cobra.NoArgs,
		RunE: a.in(func(ctx context.Context, s *session, _ []string) error { return s.listParked(ctx) }),
	}
	a.clientFlags(c)
	show := &cobra.Command{
		Use:               "show ID",
		Short:             "Show a piece of work with its content",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeParked(),
		RunE:              a.in(func(ctx context.Context, s *session, args []string) error { return s.showParked(ctx, args[0]) }),
	}
	var all bool
	replay := &cobra.Command{
		Use:               "replay ID... | --all",
		Short:             "Put work back where it came from",
		ValidArgsFunction: a.completeParked(),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			if all == (len(args) > 0) {
				return wrong("say which: ID, or --all")
			}
			return s.eachParked(ctx, args, "replayed", s.replay)
		}),
	}
	replay.Flags().BoolVar(&all, "all", false, "all that is parked")
	drop := &cobra.Command{
		Use:   "drop ID...",
		Short: "Forget work",
		Long: `Drop forgets a piece of work. What it was for is still owed: the call of a
finalizer that holds an object is published again after some time.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeParked(),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.eachParked(ctx, args, "dropped", unpark)
		}),
	}
	for _, sub := range []*cobra.Command{show, replay, drop} {
		a.clientFlags(sub)
		c.AddCommand(sub)
	}
	return c
}

// parkedWork is a piece of work, and its place in the stream.
type parkedWork struct {
	id uint64
	*coppicev1.Parked
}

func (s *session) parkedStream(ctx context.Context) (jetstream.Stream, error) {
	js, err := jetstream.New(s.nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, bus.ParkedStream(s.realm))
	if err != nil {
		return nil, fmt.Errorf("parked work of realm %s: %w", s.realm, err)
	}
	return stream, nil
}

// parked iterates over all parked work.
func parked(ctx context.Context, stream jetstream.Stream) iter.Seq2[parkedWork, error] {
	return func(yield func(parkedWork, error) bool) {
		for next := uint64(1); ; {
			m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(">"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return
			}
			var p parkedWork
			if err == nil {
				next = m.Sequence + 1
				p, err = readParked(m)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func readParked(m *jetstream.RawStreamMsg) (parkedWork, error) {
	p := parkedWork{id: m.Sequence, Parked: &coppicev1.Parked{}}
	if err := proto.Unmarshal(m.Data, p.Parked); err != nil {
		return p, fmt.Errorf("parked work %d: %w", m.Sequence, err)
	}
	return p, nil
}

// parkedByID reads one piece of work by what a user called it.
func parkedByID(ctx context.Context, stream jetstream.Stream, id string) (parkedWork, error) {
	sequence, err := strconv.ParseUint(id, 10, 64)
	if err != nil || sequence == 0 {
		return parkedWork{}, wrong("%q is not the id of parked work; 'coppice parked' lists them", id)
	}
	m, err := stream.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return parkedWork{}, &client.Error{Reason: client.NotFound, Message: fmt.Sprintf("nothing is parked under %d; 'coppice parked' lists what is", sequence)}
	}
	if err != nil {
		return parkedWork{}, fmt.Errorf("parked work %d: %w", sequence, err)
	}
	return readParked(m)
}

func (s *session) listParked(ctx context.Context) error {
	stream, err := s.parkedStream(ctx)
	if err != nil {
		return err
	}
	t := table{w: s.stdout}
	n := 0
	for p, err := range parked(ctx, stream) {
		if err != nil {
			return err
		}
		if n++; n == 1 {
			if err := t.text("ID", "AGE", "ATTEMPTS", "SUBJECT", "BY", "ERROR"); err != nil {
				return err
			}
		}
		err := t.text(strconv.FormatUint(p.id, 10), age(s.now().Sub(time.UnixMicro(p.GetTime()))), fmt.Sprint(p.GetAttempts()), p.GetSubject(), p.GetBy(), p.GetError())
		if err != nil {
			return err
		}
	}
	if n == 0 {
		_, _ = fmt.Fprintln(s.stderr, "nothing is parked")
	}
	return t.flush()
}

func (s *session) showParked(ctx context.Context, id string) error {
	stream, err := s.parkedStream(ctx)
	if err != nil {
		return err
	}
	p, err := parkedByID(ctx, stream, id)
	if err != nil {
		return err
	}
	content, err := s.content(p)
	if err != nil {
		content = fmt.Sprintf("%q (%v)\n", p.GetMessage(), err)
	}
	_, err = fmt.Fprintf(s.stdout, "ID:        %d\nParked:    %s\nSubject:   %s\nAttempts:  %d\nBy:        %s\nError:     %s\nContent:\n%s", p.id,
		time.UnixMicro(p.GetTime()).Local().Format("2006-01-02 15:04:05"), p.GetSubject(), p.GetAttempts(), printable(p.GetBy()), printable(p.GetError()), content)
	return err
}

// content is what the work was about, as text.
func (s *session) content(p parkedWork) (string, error) {
	m := s.chunk(p.GetSubject())
	if m == nil {
		var call coppicev1.FinalizeCall
		if err := manifest.UnmarshalMessage(p.GetMessage(), &call); err != nil {
			return "", err
		}
		b, err := manifest.ToYAML(call.GetObject())
		return fmt.Sprintf("finalizer %s of %s, marked at revision %d\n%s", call.GetFinalizer(), call.GetResource(), call.GetRevision(), b), err
	}
	if err := proto.Unmarshal(p.GetMessage(), m); err != nil {
		return "", err
	}
	return prototext.MarshalOptions{Multiline: true}.Format(m), nil
}

// chunk is an empty message of the sort that a queue has, nil where the subject
// is that of a call.
func (s *session) chunk(subject string) proto.Message {
	switch subject {
	case bus.WorkSubject(s.realm, bus.QueueDirty):
		return &coppicev1.DirtyChunk{}
	case bus.WorkSubject(s.realm, bus.QueueOrphan):
		return &coppicev1.OrphanChunk{}
	case bus.WorkSubject(s.realm, bus.QueueFinish):
		return &coppicev1.FinishChunk{}
	case bus.WorkSubject(s.realm, bus.QueueEvict):
		return &coppicev1.EvictChunk{}
	}
	return nil
}

// eachParked does something with each piece of work that is named, or with all.
func (s *session) eachParked(ctx context.Context, ids []string, done string, do func(context.Context, jetstream.Stream, parkedWork) error) error {
	stream, err := s.parkedStream(ctx)
	if err != nil {
		return err
	}
	var work []parkedWork
	for _, id := range ids {
		p, err := parkedByID(ctx, stream, id)
		if err != nil {
			return err
		}
		work = append(work, p)
	}
	if len(ids) == 0 {
		for p, err := range parked(ctx, stream) {
			if err != nil {
				return err
			}
			work = append(work, p)
		}
	}
	failed := failures{app: s.app}
	for _, p := range work {
		if err := do(ctx, stream, p); err != nil {
			failed.add(fmt.Errorf("parked work %d: %w", p.id, err))
			continue
		}
		if _, err := fmt.Fprintf(s.stdout, "%d %s\n", p.id, done); err != nil {
			return err
		}
	}
	if failed.n > 0 {
		return fmt.Errorf("%d of %d not %s", failed.n, len(work), done)
	}
	return nil
}

// replay puts work back. A stream that has it already has no need of it.
func (s *session) replay(ctx context.Context, stream jetstream.Stream, p parkedWork) error {
	js, err := jetstream.New(s.nc)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: p.GetSubject(), Data: p.GetMessage()}
	if s.chunk(p.GetSubject()) == nil {
		m.Header = nats.Header{bus.HeaderContentType: []string{bus.ContentJSON}}
	}
	if _, err := js.PublishMsg(ctx, m); err != nil && bus.Classify(err) != bus.Full {
		return err
	}
	return unpark(ctx, stream, p)
}

// unpark deletes parked work. It may be gone: work that is parked again takes
// the place of what was parked before.
func unpark(ctx context.Context, stream jetstream.Stream, p parkedWork) error {
	err := stream.DeleteMsg(ctx, p.id)
	if err == nil {
		return nil
	}
	if _, gone := stream.GetMsg(ctx, p.id); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}

// completeParked completes ids.
func (a *app) completeParked() completion {
	return a.completing(func(ctx context.Context, s *session, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		stream, err := s.parkedStream(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for p, err := range parked(ctx, stream) {
			if err != nil || len(ids) == completionMax {
				break
			}
			ids = append(ids, fmt.Sprintf("%d\t%s", p.id, p.GetSubject()))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
}
