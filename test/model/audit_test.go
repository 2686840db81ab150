package model_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// auditor folds the log into the model, and checks each event against the model's state
// just before it. It is safe for concurrent use.
type auditor struct {
	mu       sync.Mutex
	m        *model
	sequence uint64
	commands map[uuid.UUID]bool // commands that have an effect in the log
	sent     map[uuid.UUID]*sent
	scripts  map[string]*script         // by tag
	of       map[string]map[string]bool // uids by tag
	progress chan struct{}              // closed with each commit
	broken   string                     // a violation outside of the objects of scripts
	now      int64                      // the time of the commit
	// releasing: the commit releases a brake. It records what brakes have counted, and what was
	// let through, after all events, so that the model does not check these events.
	releasing bool
	events    map[string]int      // number of events by type
	trail     map[string][]string // events by tag, for people
}

// sent is a command that a script has sent and to which it has no reply yet.
type sent struct {
	*command
	script *script
	// logged is the outcome of each object in the commit with the command, nil if no commit
	// has it.
	logged []outcome
	// possible has the replies that were correct at some time since the command was sent,
	// if it has no effect.
	possible map[string]bool
}

func newAuditor() *auditor {
	return &auditor{
		m: newModel(), commands: map[uuid.UUID]bool{}, sent: map[uuid.UUID]*sent{}, scripts: map[string]*script{},
		of: map[string]map[string]bool{}, progress: make(chan struct{}), events: map[string]int{}, trail: map[string][]string{},
	}
}

// tagOf returns the tag of the script to which an object belongs, "" for none.
func tagOf(o *object) string {
	name := o.ns
	switch {
	case o.ns != "":
	case isRegistration(o):
		if parts := strings.Split(o.name, "."); len(parts) > 1 {
			name = parts[1]
		}
	case o.group == "coppice.dev" && o.kind == "Realm":
		return ""
	default:
		name = o.name
	}
	tag, _, _ := strings.Cut(name, "-")
	return tag
}

// fold folds the next message of the log.
func (a *auditor) fold(sequence uint64, data []byte) {
	c, err := decodeCommit(data)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		close(a.progress)
		a.progress = make(chan struct{})
	}()
	if err != nil || sequence != a.sequence+1 {
		a.broken = fmt.Sprintf("sequence %d of the log, after %d: %v", sequence, a.sequence, err)
		return
	}
	a.sequence, a.now = sequence, c.now
	rest := c.steps
	a.releasing = slices.ContainsFunc(c.commands, func(k *coppicev1.Command) bool { return k.GetVerb() == bus.VerbReleaseBrake })
	for i, k := range c.commands {
		n := 0
		for n < len(rest) && rest[n].command == i {
			n++
		}
		steps := rest[:n]
		rest = rest[n:]
		if id := c.ids[i]; id != uuid.Nil {
			if a.commands[id] {
				a.violation("", "S12: command %s is in the log twice", id)
			}
			a.commands[id] = true
		}
		switch s := a.sent[c.ids[i]]; {
		case k.GetVerb() == "genesis":
			for j := range steps {
				a.apply(&steps[j])
			}
		case s != nil:
			a.command(s, steps, c.now)
		case k.GetVerb() == bus.VerbDeleteCollection:
			a.collection(k.GetActor(), steps, c.now)
		case k.GetVerb() == bus.VerbRestore:
			a.restored(k.GetActor(), steps)
		default:
			a.collector(k.GetActor(), k.GetVerb(), steps, c.now)
		}
		for _, e := range c.sessions {
			if int(e.GetCommand()) == i {
				id, closed := e.GetImportSession().GetId(), e.GetImportSession().GetClosed()
				a.m.sessions[id] = session{c.now, closed}
				if s := a.scripts[id]; s != nil && closed && s.importing {
					s.ended = a.project(id)
					for u, o := range s.arrived {
						as := *o
						delete(s.ended.removed, u)
						s.ended.put(u, &as)
					}
				}
			}
		}
		// A command without an effect may have been decided between any two commands of a
		// commit.
		for _, s := range a.sent {
			s.look(a.m, c.now)
		}
	}
	for _, e := range c.brakes {
		a.braked(e, c.now)
	}
	if len(rest) > 0 {
		a.broken = fmt.Sprintf("sequence %d: events are not in the order of their commands", sequence)
	}
}

// look records the reply that the command would get now.
func (s *sent) look(m *model, now int64) {
	if len(s.items) != 1 {
		return
	}
	out := m.decide(s.command, 0, now)
	s.possible[out.answer(s.dry)] = true
}

// answer returns an outcome as a reply without an effect in the log.
func (o outcome) answer(dry bool) string {
	switch {
	case o.reason != "":
		return o.reason
	case len(o.effects) > 0 && !dry:
		return "an effect"
	}
	return fmt.Sprint(o.code)
}

// violation records a violation for a script, or for the whole run if the tag is empty.
func (a *auditor) violation(tag, format string, args ...any) {
	text := fmt.Sprintf("sequence %d of the log: ", a.sequence) + fmt.Sprintf(format, args...)
	if s := a.scripts[tag]; s != nil {
		s.failures = append(s.failures, text)
	} else if a.broken == "" {
		a.broken = text
	}
}

// apply applies an event, and checks the properties that every event must have (S3 to S6,
// S10, S14).
func (a *auditor) apply(e *step) *object {
	before := a.m.objects[e.uid]
	created := e.what == "created"
	if (before == nil) != created {
		a.violation("", "S14: %s of %s, which is there: %t", e.what, e.uid, before != nil)
		return nil
	}
	after := e.after(before)
	tag := ""
	if before != nil {
		tag = tagOf(before)
	} else {
		tag = tagOf(after)
	}
	if why := a.breaks(before, after, e); why != "" {
		a.violation(tag, "%s: %s of %v: %s\n  before %s\n  after  %s", why, e.what, cmpOr(before, after), e.reason, before.text(), after.text())
	}
	if after != nil {
		after.changed = a.now
	}
	if before != nil && after != nil {
		if after.freed = before.freed; before.protected() && !after.protected() {
			after.freed = e.revision
		}
	}
	if s := a.scripts[tag]; created && s != nil && s.importing {
		if s.arrived == nil {
			s.arrived = map[string]*object{}
		}
		as := *after
		s.arrived[e.uid] = &as
	}
	if a.m.put(e.uid, after); a.m.revision != e.revision {
		a.violation(tag, "S15: revision %d where %d was to come", e.revision, a.m.revision)
		a.m.revision = e.revision
	}
	if after != nil && (e.what == "marked" || after.terminating() && after.marked == 0) {
		after.marked = e.revision
	}
	if a.of[tag] == nil {
		a.of[tag] = map[string]bool{}
	}
	if a.of[tag][e.uid] = true; after == nil {
		delete(a.of[tag], e.uid)
	}
	a.events[e.what+" for "+e.reason]++
	a.trail[tag] = append(a.trail[tag], fmt.Sprintf("%d at %d: %s for %s: %s", e.revision, a.now, e.what, e.reason, cmpOr(after, before).text()))
	return after
}

func cmpOr(a, b *object) *object {
	if a != nil {
		return a
	}
	return b
}

// breaks returns the safety property that a change violates, "" if none.
func (a *auditor) breaks(before, after *object, e *step) string {
	switch {
	case before == nil:
		if was, gone := a.m.removed[e.uid]; gone && was.place != after.place() {
			return "S6: the uid was that of another object"
		}
		if a.m.at(after.place()) != nil {
			return "A1.4: the name is taken"
		}
	case before.protected() && (after == nil || after.terminating()):
		return "B2.1, B2.2: it was protected"
	case after == nil && len(a.m.usersOf(before)) > 0:
		return "B3.1: others use it"
	case after == nil:
		for _, f := range before.finalizers {
			if !slices.Contains(e.names, f) && f != orphanFinalizer && f != foregroundFinalizer && e.reason != "REQUESTED" && e.reason != "FINALIZED" {
				return "S3: it has finalizers"
			}
		}
	case before.terminating():
		if !after.terminating() {
			return "S4: the deletion was taken back"
		}
		if after.deleted > before.deleted && after.deleted > a.now {
			return "S4: the deletion was put off"
		}
		for _, f := range after.finalizers {
			if !before.has(f) && (e.what != "updated" || f != inUseFinalizer || before.session == "") && (e.what != "marked" || f != orphanFinalizer && f != foregroundFinalizer && f != contentsFinalizer) {
				return "S5: a finalizer came"
			}
		}
	}
	if before != nil && after != nil {
		switch {
		case before.place() != after.place():
			return "A2.7: it is another place"
		case after.generation < before.generation:
			return "S4: the generation has shrunk"
		case !before.terminating() && e.what == "marked" && before.generation > 0 && after.generation != before.generation+1:
			return "S4: the generation did not grow by one"
		case before.terminating() && e.what == "marked" && after.generation != before.generation:
			return "S4: the generation grew again"
		}
	}
	if after != nil && after.has(orphanFinalizer) && after.has(foregroundFinalizer) {
		return "S10: it orphans and waits"
	}
	return ""
}

// same reports whether an event is an effect, without comparing values that only the server
// knows.
func (a *auditor) same(e *step, want effect) string {
	before := a.m.objects[e.uid]
	if before == nil && e.what != "created" {
		return "it is not there"
	}
	if want.uid != "" && want.uid != e.uid {
		return "it was to be at " + want.uid
	}
	got := e.after(before)
	if want.after != nil && want.uid == "" {
		w := *want.after
		w.uid = e.uid
		if w.name == "" && got != nil {
			w.name = got.name
		}
		want.after = &w
	}
	if is, should := got.text(), want.after.text(); is != should {
		return fmt.Sprintf("\n  became %s\n  not    %s\n  from   %s", is, should, before.text())
	}
	return ""
}

// command checks the events of a script's command against the effects that the model
// decides.
func (a *auditor) command(s *sent, steps []step, now int64) {
	if s.dry {
		a.violation(s.script.tag, "S13: a dry run is in the log")
	}
	s.logged = []outcome{}
	if s.verb == bus.VerbDelete && len(steps) > 0 {
		s.script.deletion = steps[0].revision
	}
	changed := false
	for i := range s.items {
		out := a.m.decide(s.command, i, now)
		s.logged = append(s.logged, out)
		for _, want := range out.effects {
			if steps = a.bound(s, steps); len(steps) == 0 {
				a.violation(s.script.tag, "%s: it did not make of %s %s", s.verb, want.uid, want.after.text())
				return
			}
			if why := a.same(&steps[0], want); why != "" {
				a.violation(s.script.tag, "%s: %s of %s: %s", s.verb, steps[0].what, steps[0].uid, why)
			}
			a.apply(&steps[0])
			steps, changed = steps[1:], true
		}
	}
	for i := range steps {
		a.violation(s.script.tag, "%s: also %s of %s", s.verb, steps[i].what, steps[i].uid)
		a.apply(&steps[i])
	}
	if !changed && s.session == "" {
		a.violation(s.script.tag, "S15: %s changes nothing, and is in the log", s.verb)
	}
	s.script.snapshot, s.script.snapped = a.project(s.script.tag), now
}

// collection checks the events of a deletecollection against its options. The log does not
// say which objects it has read.
func (a *auditor) collection(actor string, steps []step, now int64) {
	s := a.scripts[actor]
	for i := range steps {
		e := &steps[i]
		if o := a.m.objects[e.uid]; s == nil || s.collecting == nil || o == nil || !a.m.targets(o, s.collecting.resource, s.collecting.ns, s.collecting.items[0].name) {
			a.violation(actor, "A6: a deletecollection took %v", o)
		} else if it := s.collecting.items[0]; true {
			a.expect(e, a.m.deletion(o, it.policyOf(), "", it.grace, now), "A6")
		}
		a.apply(e)
	}
	if s != nil {
		s.snapshot, s.snapped = a.project(actor), now
	}
}

// expect records a violation unless the event is the only effect.
func (a *auditor) expect(e *step, want []effect, rule string) {
	o := a.m.objects[e.uid]
	if len(want) != 1 {
		a.violation(tagOf(o), "%s: %s of %v, for %s: there was nothing to do", rule, e.what, o, e.reason)
	} else if why := a.same(e, want[0]); why != "" {
		a.violation(tagOf(o), "%s: %s of %v, for %s: %s", rule, e.what, o, e.reason, why)
	}
}
