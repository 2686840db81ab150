package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Types of lines.
const (
	typeEvent = "event" // what a command did, to one object or to the realm
	typeGap   = "gap"   // a part of the log that cannot be read, or is not part of the realm's history
)

// Line is a line of the output. docs/audit.md describes the fields. Fields are only added.
type Line struct {
	Type     string `json:"type"`
	Time     string `json:"time,omitempty"`
	Realm    string `json:"realm"`
	Position uint64 `json:"position"`
	// Line is the number of the line among the Lines of the commit, from 1.
	Line  int `json:"line"`
	Lines int `json:"lines"`

	Revision  uint64 `json:"revision,omitempty"`
	Actor     string `json:"actor,omitempty"`
	Verb      string `json:"verb,omitempty"`
	Command   string `json:"command,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Result    string `json:"result"`
	Detail    string `json:"detail,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Cause     *Cause `json:"cause,omitempty"`
	Note      string `json:"note,omitempty"`

	Next uint64 `json:"next,omitempty"` // of a gap

	event *client.LogEvent // whose cause is looked for; nil if the line has none
}

// Cause is the command of a client that caused an event.
type Cause struct {
	Revision  uint64 `json:"revision"`
	Actor     string `json:"actor,omitempty"`
	Verb      string `json:"verb,omitempty"`
	Command   string `json:"command,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Note      string `json:"note,omitempty"`
	// Unreadable is true if the log no longer has it. Revision is then that of the last cause that it names.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Results of lines that are no events about objects, which have the names of their events.
const (
	resultImportUsed      = "ImportSessionUsed"
	resultImportClosed    = "ImportSessionClosed"
	resultBrakeTripped    = "BrakeTripped"
	resultBrakeReleased   = "BrakeReleased"
	resultLetThrough      = "DeletionReleased" // by the release of a brake
	resultNoticeGiven     = "NoticeGiven"
	resultNoticeWithdrawn = "NoticeWithdrawn"
	resultPostponed       = "DeletionPostponed" // by the answer to a notice
	resultAgreed          = "DeletionAgreed"
	resultWriterBegan     = "WriterBegan"
	resultRecorded        = "Recorded" // nothing but the command
	resultSkipped         = "MessageSkipped"
	resultMissing         = "CommitsMissing"
)

// timeFormat is RFC 3339 in UTC, with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeFormat)
}

// linesOf returns the lines of a commit, without their causes.
func linesOf(realm string, position uint64, c *client.Commit, resources func(apiVersion, kind string) string) []Line {
	b := linesBuilder{c: c, at: time.UnixMicro(c.GetTime()), seen: make([]bool, len(c.GetCommands()))}
	for _, e := range client.RealmEvents(c) {
		b.lines = append(b.lines, Line{Actor: e.Actor, Verb: e.Verb, Command: e.Command, Note: e.Note, Result: e.Type, Detail: e.Detail})
	}
	objects := client.Events(c, resources)
	for i := range objects {
		e := &objects[i]
		b.lines = append(b.lines, Line{
			Revision: e.Revision, Actor: e.Actor, Verb: e.Verb, Command: e.Command, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID,
			Result: e.Type, Detail: e.Detail, Reason: history.ReasonName(e.Reason), Note: e.Note, event: e,
		})
	}
	for _, e := range c.GetEvents() {
		b.see(e)
	}
	for _, e := range c.GetEvents() {
		b.other(e)
	}
	b.commands()
	for i := range b.lines {
		l := &b.lines[i]
		l.Type, l.Time, l.Realm, l.Position, l.Line, l.Lines = typeEvent, timeText(b.at), realm, position, i+1, len(b.lines)
	}
	return b.lines
}

type linesBuilder struct {
	c     *client.Commit
	at    time.Time
	seen  []bool // by command: a line has it
	lines []Line
}

// see notes the commands that have events about objects or the realm.
func (b *linesBuilder) see(e *coppicev1.Event) {
	switch e.GetEvent().(type) {
	case *coppicev1.Event_ImportSession, *coppicev1.Event_Brake, *coppicev1.Event_Released, *coppicev1.Event_Notice:
		return
	}
	b.mark(int(e.GetCommand()))
}

func (b *linesBuilder) mark(command int) {
	if command < len(b.seen) {
		b.seen[command] = true
	}
}

// by returns a line of a command.
func (b *linesBuilder) by(command int, result, detail string) Line {
	l := Line{Result: result, Detail: detail}
	if command < len(b.c.GetCommands()) {
		c := b.c.GetCommands()[command]
		l.Actor, l.Verb, l.Note = c.GetActor(), c.GetVerb(), c.GetNote()
		if id, err := uuid.FromBytes(c.GetId()); err == nil {
			l.Command = id.String()
		}
	}
	return l
}

// other adds the lines of an event that is about no object or has no revision.
func (b *linesBuilder) other(e *coppicev1.Event) {
	command := int(e.GetCommand())
	add := func(l Line) {
		b.lines = append(b.lines, l)
		b.mark(command)
	}
	switch v := e.GetEvent().(type) {
	case *coppicev1.Event_ImportSession:
		switch session := "session " + v.ImportSession.GetId(); {
		case v.ImportSession.GetClosed():
			add(b.by(command, resultImportClosed, session))
		case command < len(b.seen) && !b.seen[command]: // otherwise the lines of its objects show it
			add(b.by(command, resultImportUsed, session))
		}
	case *coppicev1.Event_Brake:
		l := b.by(command, resultBrakeTripped, fmt.Sprintf("%d deletions", v.Brake.GetCounted()))
		switch {
		case l.Verb == bus.VerbReleaseBrake && v.Brake.GetTripped() != 0:
			l.Result, l.Detail = resultBrakeReleased, "more deletions are pending: it stays tripped"
		case l.Verb == bus.VerbReleaseBrake:
			l.Result, l.Detail = resultBrakeReleased, ""
		case v.Brake.GetTripped() != b.c.GetTime():
			return // it has only counted deletions, each of which has a line
		}
		l.Resource = v.Brake.GetResource()
		add(l)
	case *coppicev1.Event_Released:
		for u := range uid.All(v.Released.GetUids()) {
			l := b.by(command, resultLetThrough, "")
			l.UID = u.String()
			add(l)
		}
	case *coppicev1.Event_Notice:
		result, detail := noticed(v.Notice)
		for u := range uid.All(v.Notice.GetUids()) {
			l := b.by(command, result, detail)
			l.UID = u.String()
			add(l)
		}
	}
}

// noticed describes a notice after a commit.
func noticed(n *coppicev1.ExpiryNotice) (result, detail string) {
	policy := "policy " + uid.UID(n.GetPolicy()).String()
	when := func(micros int64) string { return timeText(time.UnixMicro(micros)) }
	switch answer := n.GetAnswer(); {
	case n.GetGeneration() == 0:
		return resultNoticeWithdrawn, policy
	case answer == nil:
		return resultNoticeGiven, fmt.Sprintf("%s, ends %s", policy, when(n.GetEnds()))
	case answer.GetUntil() == 0:
		return resultAgreed, fmt.Sprintf("%s, answered by %s", policy, answer.GetActor())
	default:
		return resultPostponed, fmt.Sprintf("%s, answered by %s, until %s", policy, answer.GetActor(), when(answer.GetUntil()))
	}
}

// commands adds a line for each command that has none.
func (b *linesBuilder) commands() {
	for i, c := range b.c.GetCommands() {
		switch {
		case b.seen[i] || c.GetVerb() == bus.VerbAcceptLoss: // RealmEvents has it
		case c.GetVerb() == bus.VerbEpoch:
			b.lines = append(b.lines, b.by(i, resultWriterBegan, fmt.Sprintf("epoch %d", b.c.GetEpoch())))
		default:
			b.lines = append(b.lines, b.by(i, resultRecorded, ""))
		}
	}
}

// cause sets the cause of a line, unless its own command is the cause.
func (l *Line) cause(ctx context.Context, origins *history.Origins) error {
	if l.event == nil {
		return nil
	}
	origin, err := origins.Of(ctx, l.event)
	if missing := (*history.MissingError)(nil); errors.As(err, &missing) {
		l.Cause = &Cause{Revision: missing.Revision, Unreadable: true}
		return nil
	}
	if err != nil || origin == nil || origin.Revision == l.Revision {
		return err
	}
	l.Cause = &Cause{
		Revision: origin.Revision, Actor: origin.Actor, Verb: origin.Verb, Command: origin.Command,
		Resource: origin.Resource, Namespace: origin.Namespace, Name: origin.Name, Note: origin.Note,
	}
	return nil
}

// same reports whether two lines are about the same: the fields with which a line of another program version agrees.
func (l *Line) same(o *Line) bool {
	return l.Type == o.Type && l.Realm == o.Realm && l.Position == o.Position && l.Line == o.Line && l.Time == o.Time &&
		l.Revision == o.Revision && l.UID == o.UID && l.Actor == o.Actor && l.Verb == o.Verb && l.Command == o.Command
}

// encode returns the line with its end.
func (l *Line) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	return b.Bytes(), err
}
