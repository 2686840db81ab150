package propagator_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// TestScripts plays the stories in testdata. What clients and workers do is
// committed, and prints how the rows of pending work have changed:
//
//   - web: evaluate; since +0s, revision 103     a row was created, or changed
//   - web                                     a row was deleted
//
// "publish" runs a round, and prints the messages that it publishes; "work" does
// that work, as processors and finalizers would.
//
//	dirty: [a b] of web@103          dependents to evaluate, and the row of which owner
//	orphan: [a b] of web@103         dependents that lose their reference to their owner
//	drain: [a b] of shop@103         contents of a namespace or kind, to be deleted
//	finish foregroundDeletion: [web] built-in finalizers that may be done
//	call example.com/x: pods/a       an external finalizer to be called
//
// Revisions begin with 101. The uid of an object is its name.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		t.Parallel()
		s := newScript(t)
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	t      *testing.T
	realm  *statetest.Realm
	p      *propagator.Propagator
	js     *published
	rows   string // that the last command changed
	work   []work // that was published and is not done
	queued map[string]uint64
	parked map[string]bool
	ahead  time.Duration // of the process's clock
	warned string        // of protected objects, since the last command that prints it
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{t: t, realm: statetest.New(t), js: &published{}, queued: map[string]uint64{}, parked: map[string]bool{}}
	s.restart()
	s.realm.Applied = func(_ uint64, _ []state.Change, rows []state.WorkChange) {
		s.p.Notify(rows)
		for _, c := range rows {
			switch {
			case c.Has:
				s.rows += fmt.Sprintf("+ %s: %s\n", c.UID, describe(c.Row))
			case c.Had:
				s.rows += fmt.Sprintf("- %s\n", c.UID)
			}
		}
	}
	return s
}

func (s *script) restart() {
	s.p = propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: s.realm.State, JS: s.js,
		Queued: func(_ context.Context, queue string) (uint64, error) { return s.queued[queue], nil },
		Parked: func(_ context.Context, subject string) (bool, error) { return s.parked[subject], nil },
		Now:    func() time.Time { return s.realm.Clock.Time() },
		Protected: func(_ *state.Snapshot, n *lifecycle.Node) {
			s.warned += fmt.Sprintf("warned: %s is protected, or waits for what is\n", n.Name)
		},
		// The clock of the process is an hour ahead of the last time that it was needed.
		Clock:     func() time.Time { return time.Now().Add(s.ahead) },
		ChunkSize: 10, // so that few dependents are many
	})
}

func describe(row state.WorkRow) string {
	text := strings.Join(propagator.TypesOf(row), ", ")
	if row.Evaluate && row.EvaluateAt != 0 && row.EvaluateAt != lifecycle.Never {
		text += " at " + since(row.EvaluateAt)
	}
	return fmt.Sprintf("%s; since %s, revision %d", text, since(row.Since), row.Revision)
}

func since(t lifecycle.Time) string { return "+" + t.Time().Sub(lifecycletest.Start.Time()).String() }

var commands = map[string]func(*script, *datadriven.TestData) string{
	// clients
	"create": (*script).create, "import": (*script).create, "dependents": (*script).dependents, "imports": (*script).dependents,
	"delete": (*script).delete, "protect": (*script).protect, "remove-finalizer": (*script).removeFinalizer, "register-kind": (*script).registerKind,
	"options": (*script).options, "close": (*script).closeSession,
	// the propagator, and those that it works for
	"publish": (*script).publish, "examine": (*script).examine, "second": (*script).second, "work": (*script).doWork, "republish": (*script).republish, "pending": (*script).pending,
	// the story itself
	"advance": (*script).advance, "queued": (*script).queue, "park": (*script).park, "unpark": (*script).park,
	"restart": (*script).again, "full": (*script).full,
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	do := commands[d.Cmd]
	if do == nil {
		d.Fatalf(t, "there is no command %q", d.Cmd)
	}
	s.rows = ""
	out := do(s, d)
	return out + s.rows
}

// target is the first word behind the command.
func target(d *datadriven.TestData) string { return d.CmdArgs[0].Key }

func values(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func value(d *datadriven.TestData, key string) string { return strings.Join(values(d, key), ",") }

func number(d *datadriven.TestData, key string) int {
	n, err := strconv.Atoi(value(d, key))
	if err != nil {
		panic(err)
	}
	return n
}

func duration(d *datadriven.TestData, key string) time.Duration {
	t, err := time.ParseDuration(value(d, key))
	if err != nil {
		panic(err)
	}
	return t
}

// meta reads owners=(deployments/web) blocking finalizers=(example.com/x), and
// stranger=example.com/v1.Widget: an owner w of a kind that is not registered;
// and unseen=web: a Deployment that does not exist yet.
func (s *script) meta(d *datadriven.TestData) *coppicev1.ObjectMeta {
	m := &coppicev1.ObjectMeta{Finalizers: values(d, "finalizers")}
	for _, o := range values(d, "owners") {
		m.OwnerReferences = append(m.OwnerReferences, s.realm.Reference(o, d.HasArg("blocking")))
	}
	if v := value(d, "stranger"); v != "" {
		i := strings.LastIndexByte(v, '.')
		m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: v[:i], Kind: v[i+1:], Name: "w", Uid: "w"})
	}
	for _, v := range values(d, "unseen") {
		m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "apps/v1", Kind: "Deployment", Name: v, Uid: v})
	}
	return m
}

// create is create or import pods/a, the latter in a session that stays open if
// it says session=s.
func (s *script) create(d *datadriven.TestData) string {
	if d.Cmd == "import" {
		s.realm.Must(s.realm.Importation(target(d), value(d, "session"), s.meta(d)))
	} else {
		s.realm.Create(target(d), s.meta(d))
	}
	return ""
}

// dependents creates or imports many: dependents pods/a count=3 owners=(deployments/web).
func (s *script) dependents(d *datadriven.TestData) string {
	list := make([]statetest.Decide, number(d, "count"))
	for i := range list {
		name := fmt.Sprintf("%s-%04d", target(d), i)
		if d.Cmd == "imports" {
			list[i] = s.realm.Importation(name, value(d, "session"), s.meta(d))
		} else {
			list[i] = s.realm.Creation(name, s.meta(d))
		}
	}
	s.realm.Must(list...)
	return ""
}

func (s *script) delete(d *datadriven.TestData) string {
	s.realm.Delete(target(d), value(d, "policy"))
	return ""
}

func (s *script) protect(d *datadriven.TestData) string {
	s.realm.Protect(target(d))
	return ""
}

func (s *script) removeFinalizer(d *datadriven.TestData) string {
	s.realm.RemoveFinalizer(target(d), value(d, "finalizer"))
	return ""
}

// registerKind is register-kind widgets group=example.com kind=Widget.
func (s *script) registerKind(d *datadriven.TestData) string {
	s.realm.Register(lifecycle.KindSpec{
		Group: value(d, "group"), Kind: value(d, "kind"), Plural: target(d), Scope: lifecycle.ScopeNamespaced,
		Versions: []lifecycle.KindVersion{{Name: "v1"}},
	})
	s.p.Reconsider()
	return ""
}

// closeSession is close session=s, an import session.
func (s *script) closeSession(d *datadriven.TestData) string {
	s.realm.CloseSession(value(d, "session"))
	s.p.SessionClosed()
	return ""
}

// options is options ownerGrace=5m; nothing said is the defaults.
func (s *script) options(d *datadriven.TestData) string {
	var spec *lifecycle.SettingsSpec
	if d.HasArg("ownerGrace") {
		spec = &lifecycle.SettingsSpec{OwnerGrace: value(d, "ownerGrace")}
	}
	s.realm.SetSettings(spec)
	s.p.Reconsider()
	return ""
}

func (s *script) publish(*datadriven.TestData) string {
	if err := s.p.Publish(s.t.Context()); err != nil {
		return err.Error() + "\n"
	}
	return s.published()
}

// examine is what happens soon after a round that found owners to be examined.
func (s *script) examine(*datadriven.TestData) string {
	s.ahead += time.Hour
	if err := s.p.Examine(s.t.Context()); err != nil {
		return err.Error() + "\n"
	}
	warned := s.warned
	s.warned = ""
	return warned + s.published()
}

func (s *script) published() string {
	var out []work
	for _, m := range s.js.take() {
		out = append(out, read(s.t, m))
	}
	if len(out) == 0 {
		return "nothing\n"
	}
	// Walks may publish sooner or later than rounds.
	slices.SortFunc(out, func(a, b work) int { return strings.Compare(a.text, b.text) })
	s.work = append(s.work, out...)
	text := ""
	for _, w := range out {
		text += w.text + "\n"
	}
	return text
}

// second is what happens every second: containers are checked, and a round follows.
func (s *script) second(d *datadriven.TestData) string {
	s.ahead += time.Hour
	if err := s.p.CheckDraining(); err != nil {
		return err.Error() + "\n"
	}
	return s.publish(d)
}

func (s *script) doWork(*datadriven.TestData) string {
	work := s.work
	s.work = nil
	for _, w := range work {
		if w.do != nil {
			w.do(s.realm)
		}
	}
	return ""
}

// republish is republish age=30s, what the scanner asks for.
func (s *script) republish(d *datadriven.TestData) string {
	reply, err := s.p.Republish(s.t.Context(), &coppicev1.RepublishRequest{MinAgeMilliseconds: uint32(duration(d, "age").Milliseconds())})
	if err != nil {
		return err.Error() + "\n"
	}
	return counts(reply)
}

func counts(r *coppicev1.RepublishReply) string {
	text := ""
	for _, c := range r.GetPending() {
		text += fmt.Sprintf("%s: %d, the oldest since %s\n", c.GetType(), c.GetRows(), since(lifecycle.Time(c.GetOldest())))
	}
	if text == "" {
		return "nothing\n"
	}
	return text
}

func (s *script) pending(*datadriven.TestData) string {
	snap := s.realm.Snapshot()
	defer snap.Close()
	text := ""
	snap.EachWorkRow("", func(u uid.UID, row state.WorkRow) bool {
		text += fmt.Sprintf("%s: %s\n", u, describe(row))
		return true
	})
	if text == "" {
		return "nothing\n"
	}
	return text
}

func (s *script) advance(d *datadriven.TestData) string {
	s.realm.Clock = s.realm.Clock.Add(duration(d, "by"))
	return ""
}

// queue is queued dirty n=5: so many messages wait in the queue.
func (s *script) queue(d *datadriven.TestData) string {
	s.queued[target(d)] = uint64(number(d, "n"))
	return ""
}

func (s *script) park(d *datadriven.TestData) string {
	k := s.realm.Key(target(d))
	s.parked[bus.Finalize{
		Realm: bus.DefaultRealm, Group: k.Kind.Group, Plural: k.Kind.Plural, UID: s.realm.UID(target(d)).String(), Finalizer: value(d, "finalizer"),
	}.Subject()] = d.Cmd == "park"
	return ""
}

// again starts a new writer's propagator.
func (s *script) again(*datadriven.TestData) string {
	s.restart()
	return ""
}

// full is full times=3: the stream accepts nothing so many times.
func (s *script) full(d *datadriven.TestData) string {
	var err error = &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages exceeded"}
	if d.HasArg("refused") {
		err = jetstream.ErrStreamNotFound
	}
	s.js.refusing(err, number(d, "times"))
	return ""
}

// A built-in finalizer completes, so that its object becomes solid, and a DELETE in
// the same commit sets it again: the row is evaluated, although it is equal to the one
// before and the dependents of a solid owner are evaluated too.
func TestSolidAndDeletedAgain(t *testing.T) {
	t.Parallel()
	for policy, finalizer := range map[string]string{
		lifecycle.Foreground: lifecycle.FinalizerForeground, lifecycle.Orphan: lifecycle.FinalizerOrphan,
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			web := s.realm.Create("deployments/web", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
			s.realm.Create("pods/a", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{s.realm.Reference("deployments/web", true)}})
			s.realm.Delete("pods/a", lifecycle.Background)
			s.realm.Delete("deployments/web", policy)
			want := fmt.Sprintf("finish %s: [web]\n", finalizer)
			if got := s.publish(nil); got != "call example.com/x: deployments.apps/web@104\n"+want {
				t.Fatalf("published %s", got)
			}
			key := s.realm.Key("deployments/web")
			s.realm.Must(
				func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
					return &lifecycle.Outcome{Events: lifecycle.Finish(ctx, ctx.Node(web), finalizer, nil)}, nil
				},
				func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
					return lifecycle.Delete(ctx, key, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
				})
			if got := s.publish(nil); got != want {
				t.Errorf("published %q after both, want %q", got, want)
			}
		})
	}
}
