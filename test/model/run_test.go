package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// script is a running script in namespaces of its own: tag and tag-x. The lock of the
// auditor protects its fields from failures on.
type script struct {
	tag string
	w   *world
	a   *auditor

	failures   []string
	blamed     bool
	collecting *command           // the deletecollection under way
	collects   uint64             // the revision at which it began
	paused     map[string]uint64  // the revisions of objects whose deletion was paused when a release of the brake began
	importing  bool               // owners are named by the uids with which they will be imported
	arrived    map[string]*object // the objects as they were imported, by uid, if importing
	// ended is the state at the end of an import, if importing, as it would be if no service had worked before.
	ended    *model
	snapshot *model // the state after the last command
	snapped  int64
	deletion uint64 // the revision of the last DELETE
}

var tags atomic.Int64

// begin begins a script.
func (w *world) begin() *script {
	s := &script{tag: fmt.Sprintf("s%d", tags.Add(1)), w: w, a: w.a}
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	w.a.scripts[s.tag] = s
	return s
}

func (s *script) end() {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if !s.blamed {
		delete(s.a.scripts, s.tag) // later violations of a failed script still belong to it
		delete(s.a.trail, s.tag)
	}
}

// run runs the lines of a script, and waits until it has settled. The error is a violation
// of the model's rules.
func (w *world) run(ctx context.Context, lines []string) error {
	s := w.begin()
	defer s.end()
	var alongside chan error // result of the previous line, which still runs
	for i, line := range append(slices.Clone(lines), "settle") {
		w.operations.Add(1)
		if rest, ok := strings.CutPrefix(line, "& "); ok && alongside == nil {
			alongside = make(chan error, 1)
			go func() { alongside <- s.do(ctx, rest) }()
			continue
		}
		var err error
		if alongside != nil && !alone[strings.Fields(line)[0]] {
			err = s.do(ctx, strings.TrimPrefix(line, "& "))
			err = errors.Join(err, <-alongside)
		} else {
			if alongside != nil {
				err = <-alongside
			}
			err = errors.Join(err, s.do(ctx, strings.TrimPrefix(line, "& ")))
		}
		if alongside = nil; err != nil {
			s.a.mu.Lock()
			s.blamed = true
			trail := strings.Join(s.a.trail[s.tag], "\n")
			s.a.mu.Unlock()
			return fmt.Errorf("line %d, %q of script %s: %w\nits events:\n%s\n", i+1, line, s.tag, err, trail)
		}
	}
	return nil
}

// alone are the operations that wait for the previous one.
var alone = map[string]bool{"release": true, "undo": true, "settle": true, "close": true, "deletecollection": true, "restart": true, "rebuild": true, "stop": true}

func (s *script) failed() error {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if why := s.a.broken; why != "" {
		s.a.broken = "" // told once
		return errors.New(why)
	}
	if len(s.failures) > 0 {
		return errors.New(strings.Join(s.failures, "\n"))
	}
	return nil
}

// do runs one line.
func (s *script) do(ctx context.Context, line string) error {
	words := strings.Fields(line)
	var err error
	switch words[0] {
	case "settle":
		err = s.settle(ctx)
	case "restart", "rebuild", "stop":
		err = s.w.disturb(words[0], words[1])
	case "undo":
		err = s.undo(ctx, words)
	case "release":
		err = s.release(ctx)
	case "close":
		err = s.close(ctx)
	case "propose", "work":
		err = s.propose(ctx, words)
	case "plan":
		err = s.plan(ctx, words)
	default:
		err = s.command1(ctx, words)
	}
	return errors.Join(err, s.failed())
}

// command1 runs a line that is a command.
func (s *script) command1(ctx context.Context, words []string) error {
	s.a.mu.Lock()
	c, err := s.command(words)
	s.a.mu.Unlock()
	if err != nil {
		return err
	}
	return s.perform(ctx, c, slices.Contains(words, "twice"))
}

// perform sends a command, and checks the reply against the model.
func (s *script) perform(ctx context.Context, c *command, twice bool) error {
	return s.performAs(ctx, s.w.newID(), c, twice)
}

// performAs is perform with the id of the command.
func (s *script) performAs(ctx context.Context, id uuid.UUID, c *command, twice bool) error {
	s.a.mu.Lock()
	k := &sent{command: c, script: s, possible: map[string]bool{}}
	if c.verb == bus.VerbDeleteCollection {
		s.collecting, s.collects = c, s.a.m.revision
	} else {
		s.a.sent[id] = k
		k.look(s.a.m, s.w.now().UnixMicro())
	}
	s.a.mu.Unlock()
	defer func() {
		s.a.mu.Lock()
		defer s.a.mu.Unlock()
		delete(s.a.sent, id)
		s.collecting = nil
	}()
	reply, err := s.send(ctx, id, c)
	if c.verb == bus.VerbDeleteCollection {
		return s.collected(ctx, c, reply, err)
	}
	if err == nil {
		err = s.a.reaches(ctx, reply.GetRevision())
	}
	s.a.mu.Lock()
	twice = twice && k.logged != nil // a command without an effect is decided again
	s.a.mu.Unlock()
	if twice {
		again, err := s.send(ctx, id, c)
		if err != nil || again.GetResults()[0].GetCode() != reply.GetResults()[0].GetCode() {
			return errors.Join(fmt.Errorf("S12: answered %v, and when it was repeated %v", reply, again), err)
		}
	}
	return s.answered(ctx, k, reply, err)
}

// collected checks the reply to a deletecollection: the objects that it had to delete are
// terminating or removed.
func (s *script) collected(ctx context.Context, c *command, reply *coppicev1.ObjectsReply, err error) error {
	if err == nil {
		err = s.a.reaches(ctx, reply.GetRevision())
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.a.m.byResource(c.resource) == nil && errors.Is(err, api.ErrUnknownKind) {
		return nil
	}
	for uid := range s.a.of[s.tag] {
		if o := s.a.m.objects[uid]; err == nil && !o.terminating() && !o.protected() && o.freed <= s.collects && s.a.m.targets(o, c.resource, c.ns, c.items[0].name) {
			return fmt.Errorf("A6: %v was not deleted", o)
		}
	}
	return err
}

// answered checks a reply against the model.
func (s *script) answered(ctx context.Context, k *sent, reply *coppicev1.ObjectsReply, err error) error {
	var refused *lifecycle.Error
	got := ""
	switch {
	case errors.As(err, &refused):
		got = string(refused.Reason)
	case err != nil:
		return err
	default:
		got = fmt.Sprint(reply.GetResults()[0].GetCode())
	}
	s.a.mu.Lock()
	s.a.events[k.verb+": "+got]++
	s.a.mu.Unlock()
	right := func() bool {
		s.a.mu.Lock()
		defer s.a.mu.Unlock()
		if k.logged != nil {
			return err == nil && k.logged[0].answer(true) == got
		}
		return k.possible[got]
	}
	if right() {
		return nil
	}
	// The reply may be based on a commit that the auditor has not read yet.
	if err := s.w.sync(ctx); err != nil {
		return err
	}
	s.a.mu.Lock()
	k.look(s.a.m, s.w.now().UnixMicro())
	s.a.mu.Unlock()
	if right() {
		return nil
	}
	if why := s.failed(); why != nil {
		return why
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if err != nil {
		got += " (" + err.Error() + ")"
	}
	if k.logged != nil {
		return fmt.Errorf("answered %s, and the log has it as %s", got, k.logged[0].answer(true))
	}
	return fmt.Errorf("answered %s without an effect in the log; right were %v", got, k.possible)
}

// close closes the script's import session.
func (s *script) close(ctx context.Context) error {
	at := bus.API{Realm: bus.DefaultRealm, Actor: s.tag, Verb: bus.VerbImport, Plural: "pods", Namespace: s.tag}
	k := &sent{command: &command{verb: bus.VerbImport, session: s.tag}, script: s}
	id := s.w.newID()
	s.a.mu.Lock()
	s.a.sent[id] = k
	s.a.mu.Unlock()
	defer func() {
		s.a.mu.Lock()
		defer s.a.mu.Unlock()
		delete(s.a.sent, id)
	}()
	var reply coppicev1.ObjectsReply
	err := rpc.Retry(ctx, attempt, func(ctx context.Context) error {
		return rpc.Call(ctx, s.w.nc, at.Subject(), nats.Header{bus.HeaderCommand: []string{id.String()}},
			&coppicev1.ImportRequest{Session: s.tag, Close: true}, &reply)
	})
	if err != nil {
		return err
	}
	return s.a.await(ctx, "the end of the session in the log", func() bool { return s.a.m.sessions[s.tag].closed })
}

// reaches waits until the auditor has read the log up to a revision.
func (a *auditor) reaches(ctx context.Context, revision uint64) error {
	return a.await(ctx, fmt.Sprintf("revision %d in the log", revision), func() bool { return a.m.revision >= revision || a.broken != "" })
}

// await waits until a condition is true. It checks the condition after each commit.
func (a *auditor) await(ctx context.Context, what string, holds func() bool) error {
	limit := time.NewTimer(testkit.Timeout)
	defer limit.Stop()
	for {
		a.mu.Lock()
		ok, next := holds(), a.progress
		a.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-next:
		case <-limit.C:
			return fmt.Errorf("waited in vain for %s: %v", what, testkit.Timeout)
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, ctx.Err())
		}
	}
}
