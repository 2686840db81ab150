package audit

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// madeLog is a log of what it has by position; positions without a commit or a reason are missing.
type madeLog struct {
	client.LogClient
	commits map[uint64]*client.Commit
	skipped map[uint64]string
	last    uint64
}

func (l *madeLog) Last(context.Context, ...client.CommitOption) (uint64, error) { return l.last, nil }

func (l *madeLog) Read(_ context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	var of client.LogOptions
	for _, o := range opts {
		o.ApplyToLog(&of)
	}
	return func(yield func(client.LogCommit, error) bool) {
		from, to := of.FromSequence, l.last
		if of.ToSequence > 0 {
			to = min(to, of.ToSequence)
		}
		if from == 0 {
			for at, c := range l.commits {
				if n := uint64(len(client.Events(c, lower))); c.GetFirstRevision() <= of.FromRevision && of.FromRevision < c.GetFirstRevision()+n {
					from = at
				}
			}
		}
		for at, n := from, 0; at <= to; at++ {
			c, why := l.commits[at], l.skipped[at]
			switch {
			case c == nil && why == "":
				next := at + 1
				for next <= l.last && l.commits[next] == nil && l.skipped[next] == "" {
					next++
				}
				yield(client.LogCommit{}, &client.Error{
					Reason: client.ErrExpired, Message: fmt.Sprintf("position %d is missing", at), Causes: []client.Cause{{Reason: client.CauseLogContinues, Message: strconv.FormatUint(next, 10)}},
				})
				return
			case c == nil && !of.Skipped:
				continue
			}
			if n++; !yield(client.LogCommit{Sequence: at, Commit: c, Skipped: why}, nil) || n == of.Limit {
				return
			}
		}
	}
}

func lower(_, kind string) string { return strings.ToLower(kind) }

// second returns a time of the test log.
func second(n int64) time.Time {
	return time.Date(2026, 3, 2, 10, 31, 0, 0, time.UTC).Add(time.Duration(n) * time.Second)
}

// testLog is a log with a deletion and its cascade, gaps, a message that is no commit, and commands without objects.
func testLog() *madeLog {
	packed := func(list ...string) (b []byte) {
		for _, text := range list {
			u, err := uid.Parse(text)
			if err != nil {
				panic(err)
			}
			b = append(b, u...)
		}
		return b
	}
	command := func(actor, verb, note string, id byte) *coppicev1.Command {
		c := &coppicev1.Command{Actor: actor, Verb: verb, Note: note}
		if id > 0 {
			u := uuid.UUID{6: 0x70, 8: 0x80, 15: id}
			c.Id = u[:]
		}
		return c
	}
	ids := func(resource, name string) *coppicev1.Identities {
		i := uint32(0)
		if resource == "pods" {
			i = 1
		}
		return &coppicev1.Identities{Uids: packed("uid-of-" + name), Resources: []uint32{i}, Namespaces: []uint32{0}, Names: []string{name}}
	}
	commit := func(at int64, first uint64, commands []*coppicev1.Command, events ...*coppicev1.Event) *client.Commit {
		return &client.Commit{Time: second(at).UnixMicro() + 123_456, FirstRevision: first, Epoch: 3, Commands: commands, Events: events, Resources: []string{"deployments.apps", "pods"}, Namespaces: []string{"shop"}}
	}
	node := func(kind, name string) *coppicev1.Node {
		return &coppicev1.Node{Uid: packed("uid-of-" + name), ApiVersion: "v1", Kind: kind, Namespace: "shop", Name: name}
	}
	requested, absent := coppicev1.Reason_REASON_REQUESTED, coppicev1.Reason_REASON_OWNER_ABSENT
	return &madeLog{
		last:    11,
		skipped: map[uint64]string{5: "it has no key of the realm"},
		commits: map[uint64]*client.Commit{
			3: commit(3, 10, []*coppicev1.Command{command("graph", bus.VerbEpoch, "", 0)}),
			4: commit(4, 10, []*coppicev1.Command{command("ana", bus.VerbCreate, "", 1), command("bert", bus.VerbImport, "", 2)},
				&coppicev1.Event{Reason: requested, Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Node: node("Pod", "web-1")}}},
				&coppicev1.Event{Command: 1, Reason: requested, Event: &coppicev1.Event_ImportSession{ImportSession: &coppicev1.ImportSessionChanged{Id: "s1", Closed: true}}}),
			6: commit(6, 11, []*coppicev1.Command{command("ana", bus.VerbDelete, "old <release> & \"more\"", 3)},
				&coppicev1.Event{Reason: requested, Event: &coppicev1.Event_Deleted{Deleted: &coppicev1.ObjectsDeleted{Objects: ids("deployments.apps", "web"), Finalizers: []string{"example.com/bucket"}}}}),
			7: commit(7, 12, []*coppicev1.Command{command("processor", "propose", "", 0)},
				&coppicev1.Event{Reason: absent, Cause: 11, Event: &coppicev1.Event_Deleted{Deleted: &coppicev1.ObjectsDeleted{Objects: ids("pods", "web-1")}}},
				&coppicev1.Event{Reason: absent, Cause: 2, Event: &coppicev1.Event_Deleted{Deleted: &coppicev1.ObjectsDeleted{Objects: ids("pods", "old")}}}),
			10: commit(10, 14, []*coppicev1.Command{command("olga", bus.VerbVeto, "not yet", 4), command("olga", bus.VerbReleaseBrake, "", 5)},
				&coppicev1.Event{Command: 1, Reason: requested, Event: &coppicev1.Event_Released{Released: &coppicev1.BrakeReleased{Uids: packed("uid-of-a", "uid-of-b")}}},
				&coppicev1.Event{Command: 1, Reason: requested, Event: &coppicev1.Event_Brake{Brake: &coppicev1.BrakeChanged{Resource: "pods"}}},
				&coppicev1.Event{Command: 1, Reason: requested, Event: &coppicev1.Event_Brake{Brake: &coppicev1.BrakeChanged{Resource: "pods"}}},
				&coppicev1.Event{Reason: requested, Event: &coppicev1.Event_Notice{Notice: &coppicev1.ExpiryNotice{
					Uids: packed("uid-of-c"), Policy: packed("uid-of-policy"), Generation: 1, Ends: second(100).UnixMicro(),
					Answer: &coppicev1.NoticeAnswer{Actor: "olga", Reason: "not yet", Until: second(200).UnixMicro()},
				}}}),
			11: commit(11, 14, []*coppicev1.Command{command("olga", "future", "", 0)}),
		},
	}
}

// testRun writes lines into a file, and returns an error.
func testRun(t *testing.T, log *madeLog, f flags, since, until time.Time) (stdout string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	s := &cli.Session{App: &cli.App{Realm: "default", Stdout: &out, Stderr: &errs}, Reader: lookup.New(nil, &client.Kinds{}, &errs, 0, nil)}
	h, err := history.Open(t.Context(), log, lower)
	must.Succeed(t, err)
	r := &run{Session: s, flags: f, until: until, h: h, origins: history.Origins{Find: h.Find}, names: history.Names{}}
	from, err := r.open(t.Context(), since)
	if err != nil {
		return "", err
	}
	err = r.write(t.Context(), from)
	if fail := r.out.close(); err == nil {
		err = fail
	}
	return out.String(), err
}

// The lines are stable: programs read them. Fields are only added.
const golden = `{"type":"gap","time":"2026-03-02T10:31:03.123Z","realm":"default","position":1,"line":1,"lines":1,"result":"CommitsMissing","detail":"position 1 is missing","next":3}
{"type":"event","time":"2026-03-02T10:31:03.123Z","realm":"default","position":3,"line":1,"lines":1,"actor":"graph","verb":"epoch","result":"WriterBegan","detail":"epoch 3"}
{"type":"event","time":"2026-03-02T10:31:04.123Z","realm":"default","position":4,"line":1,"lines":2,"revision":10,"actor":"ana","verb":"create","command":"00000000-0000-7000-8000-000000000001","resource":"pod","namespace":"shop","name":"web-1","uid":"uid-of-web-1","result":"ObjectCreated","reason":"Requested"}
{"type":"event","time":"2026-03-02T10:31:04.123Z","realm":"default","position":4,"line":2,"lines":2,"actor":"bert","verb":"import","command":"00000000-0000-7000-8000-000000000002","result":"ImportSessionClosed","detail":"session s1"}
{"type":"gap","time":"2026-03-02T10:31:04.123Z","realm":"default","position":5,"line":1,"lines":1,"result":"MessageSkipped","detail":"it has no key of the realm","next":6}
{"type":"event","time":"2026-03-02T10:31:06.123Z","realm":"default","position":6,"line":1,"lines":1,"revision":11,"actor":"ana","verb":"delete","command":"00000000-0000-7000-8000-000000000003","resource":"deployments.apps","namespace":"shop","name":"web","uid":"uid-of-web","result":"ObjectDeleted","detail":"last finalizers example.com/bucket","reason":"Requested","note":"old <release> & \"more\""}
{"type":"event","time":"2026-03-02T10:31:07.123Z","realm":"default","position":7,"line":1,"lines":2,"revision":12,"actor":"processor","verb":"propose","resource":"pods","namespace":"shop","name":"web-1","uid":"uid-of-web-1","result":"ObjectDeleted","reason":"OwnerAbsent","cause":{"revision":11,"actor":"ana","verb":"delete","command":"00000000-0000-7000-8000-000000000003","resource":"deployments.apps","namespace":"shop","name":"web","note":"old <release> & \"more\""}}
{"type":"event","time":"2026-03-02T10:31:07.123Z","realm":"default","position":7,"line":2,"lines":2,"revision":13,"actor":"processor","verb":"propose","resource":"pods","namespace":"shop","name":"old","uid":"uid-of-old","result":"ObjectDeleted","reason":"OwnerAbsent","cause":{"revision":2,"unreadable":true}}
{"type":"gap","time":"2026-03-02T10:31:10.123Z","realm":"default","position":8,"line":1,"lines":1,"result":"CommitsMissing","detail":"position 8 is missing","next":10}
{"type":"event","time":"2026-03-02T10:31:10.123Z","realm":"default","position":10,"line":1,"lines":5,"actor":"olga","verb":"releasebrake","command":"00000000-0000-7000-8000-000000000005","uid":"uid-of-a","result":"DeletionReleased"}
{"type":"event","time":"2026-03-02T10:31:10.123Z","realm":"default","position":10,"line":2,"lines":5,"actor":"olga","verb":"releasebrake","command":"00000000-0000-7000-8000-000000000005","uid":"uid-of-b","result":"DeletionReleased"}
{"type":"event","time":"2026-03-02T10:31:10.123Z","realm":"default","position":10,"line":3,"lines":5,"actor":"olga","verb":"releasebrake","command":"00000000-0000-7000-8000-000000000005","resource":"pods","result":"BrakeReleased"}
{"type":"event","time":"2026-03-02T10:31:10.123Z","realm":"default","position":10,"line":4,"lines":5,"actor":"olga","verb":"releasebrake","command":"00000000-0000-7000-8000-000000000005","resource":"pods","result":"BrakeReleased"}
{"type":"event","time":"2026-03-02T10:31:10.123Z","realm":"default","position":10,"line":5,"lines":5,"actor":"olga","verb":"veto","command":"00000000-0000-7000-8000-000000000004","uid":"uid-of-c","result":"DeletionPostponed","detail":"policy uid-of-policy, answered by olga, until 2026-03-02T10:34:20.000Z","note":"not yet"}
{"type":"event","time":"2026-03-02T10:31:11.123Z","realm":"default","position":11,"line":1,"lines":1,"actor":"olga","verb":"future","result":"Recorded"}
`

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must.Succeed(t, err)
	return string(data)
}

func TestLines(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	_, err := testRun(t, testLog(), flags{out: name}, time.Time{}, time.Time{})
	if got := read(t, name); err != nil || got != golden {
		t.Errorf("wrote, with %v\n%s\nwant\n%s", err, got, golden)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; only its owner may read it", info.Mode(), err)
	}
	if _, err := testRun(t, testLog(), flags{out: name}, time.Time{}, time.Time{}); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a file that exists is written again: %v", err)
	}
}

// A file that was cut at any byte is continued to the same file, also with what has been appended to the log since.
func TestResume(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	for cut := range len(golden) + 1 {
		must.Succeed(t, os.WriteFile(name, []byte(golden[:cut]), 0o600))
		if _, err := testRun(t, testLog(), flags{out: name, resume: true}, time.Time{}, time.Time{}); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got := read(t, name); got != golden {
			t.Fatalf("cut at %d, the file is\n%s\nwant\n%s", cut, got, golden)
		}
	}
}

// What was cut from the log since is a gap. The commit of the last line is none if the file has all of its lines.
func TestResumeAfterCut(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	lines := strings.SplitAfter(golden, "\n")
	for kept, want := range map[int]string{
		6: `"position":7,"line":1,"lines":1,"result":"CommitsMissing"`, // all of position 6 is there
		7: `"position":7,"line":1,"lines":1,"result":"CommitsMissing"`, // one line of two
		8: `"position":8,"line":1,"lines":1,"result":"CommitsMissing"`,
	} {
		log := testLog()
		for at := range uint64(10) {
			delete(log.commits, at)
			delete(log.skipped, at)
		}
		before := strings.Join(lines[:kept], "")
		must.Succeed(t, os.WriteFile(name, []byte(before), 0o600))
		_, err := testRun(t, log, flags{out: name, resume: true}, time.Time{}, time.Time{})
		added, ok := strings.CutPrefix(read(t, name), before)
		gap, rest, _ := strings.Cut(added, "\n")
		if err != nil || !ok || !strings.Contains(gap, want) || rest != strings.Join(lines[9:], "") {
			t.Errorf("after %d lines: %v, added\n%s", kept, err, added)
		}
	}
}

// A file that is no audit of this log is refused, and stays as it is.
func TestResumeRefused(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	for _, c := range []struct{ content, why string }{
		{"notes\n", "none of 'coppice audit'"},
		{"notes", "no line of 'coppice audit'"},
		{golden + "notes", "no line of 'coppice audit'"},
		{"{}\n", "none of 'coppice audit'"},
		{strings.ReplaceAll(golden, `"realm":"default"`, `"realm":"other"`), `about realm "other"`},
		{strings.ReplaceAll(golden, `"position":11`, `"position":12`), "ends at 11"},
		{strings.ReplaceAll(golden, `"verb":"future"`, `"verb":"past"`), "it is another log"},
		{strings.Repeat("x", 3*maxLine), "no line"},
		{"\n" + strings.Repeat("x", 2*maxLine) + "\n", "none of 'coppice audit'"},
	} {
		must.Succeed(t, os.WriteFile(name, []byte(c.content), 0o600))
		_, err := testRun(t, testLog(), flags{out: name, resume: true}, time.Time{}, time.Time{})
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%.60q: %v, want a refusal that says %q", c.content, err, c.why)
		}
		if read(t, name) != c.content {
			t.Errorf("%.60q was changed", c.content)
		}
	}
}

// Files of successive periods have together what one file has.
func TestPeriods(t *testing.T) {
	t.Parallel()
	var joined []string
	dir := t.TempDir()
	ends := []time.Time{{}, second(4).Add(123 * time.Millisecond), second(6).Add(123456 * time.Microsecond), second(7).Add(time.Second / 2), {}}
	for i := range len(ends) - 1 {
		name := filepath.Join(dir, fmt.Sprint(i))
		_, err := testRun(t, testLog(), flags{out: name}, ends[i], ends[i+1])
		must.Succeed(t, err)
		joined = append(joined, read(t, name))
	}
	// A gap or a skipped message is in the file of the period in which the commit after it is, or in both.
	without := func(text string) (events []string) {
		for line := range strings.Lines(text) {
			if !strings.Contains(line, `"type":"gap"`) {
				events = append(events, line)
			}
		}
		return events
	}
	got, want := strings.Join(without(strings.Join(joined, "")), ""), strings.Join(without(golden), "")
	if got != want {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
	for i, missing := range []string{`"position":1,`, `"position":5,`, "", `"position":8,`} {
		if missing != "" && !strings.Contains(joined[i], missing) {
			t.Errorf("period %d does not have the gap at %s:\n%s", i, missing, joined[i])
		}
	}
}

// Filters select events, and no gaps.
func TestFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    flags
		want int // events
	}{
		{flags{actors: []string{"ana"}}, 2},
		{flags{actors: []string{"ana", "olga"}}, 8},
		{flags{namespace: "shop"}, 4},
		{flags{namespace: "shop", actors: []string{"processor"}}, 2},
		{flags{actors: []string{"nobody"}}, 0},
	} {
		c.f.out = stdout
		out, err := testRun(t, testLog(), c.f, time.Time{}, time.Time{})
		if events, gaps := strings.Count(out, `"type":"event"`), strings.Count(out, `"type":"gap"`); err != nil || events != c.want || gaps != 3 {
			t.Errorf("%+v: %d events and %d gaps, %v; want %d and 3", c.f, events, gaps, err, c.want)
		}
	}
}
