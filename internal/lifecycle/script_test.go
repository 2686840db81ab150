package lifecycle_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
)

// TestScripts plays the scenarios in testdata. Each file is about one subject,
// and each case says which rule or scenario it shows. The commands are those
// of the maps below; what they print is what the rules answered:
//
//	101 created pods/a: generation=1             events, with their revisions
//	102 removed pods/b; because owner absent (101)   the reason and its cause
//	201                                          the code of the reply
//	422 Invalid: ...                             or a refusal, with its causes
//
// Objects are pods/a or, elsewhere than in namespace "default", pods/a in shop.
// References are ReplicaSet.apps/rs, in the namespace of the dependent: the uid
// is that of the object which has this name, or had it last. What differs from
// that is said behind it: uid=..., version=..., in=..., blocking=true, and so
// on. An object's uid is its name, so that stories can be read; the second one
// of that name has name-2. Revisions begin with 101. Times count from the
// beginning of the story.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		t.Parallel()
		s := newScript()
		datadriven.RunTest(t, path, s.run)
	})
}

// script is a story that is being played.
type script struct {
	realm *lifecycletest.Realm
	// last is the uid that an object with a key has, or had last.
	last map[lifecycle.Coordinates]uid.UID
	used map[uid.UID]bool
	keys map[uid.UID]string
	// notices are the notices of expiry policies.
	notices map[uid.UID][]lifecycle.Notice
}

func newScript() *script {
	s := &script{realm: lifecycletest.New(), last: map[lifecycle.Coordinates]uid.UID{}, used: map[uid.UID]bool{}, keys: map[uid.UID]string{}, notices: map[uid.UID][]lifecycle.Notice{}}
	s.realm.Revision = 100
	return s
}

var commands = map[string]func(*script, *args) string{
	// clients
	"create": (*script).create, "update": (*script).update, "update-status": (*script).updateStatus,
	"patch": (*script).patch, "apply": (*script).apply, "apply-across": (*script).applyAcross, "delete": (*script).delete,
	"remove-finalizer": (*script).removeFinalizer, "register-kind": (*script).registerKind,
	"force-finalizer": (*script).forceFinalizer, "protect": (*script).protect, "collect-cycle": (*script).collectCycle, "unprotect": (*script).unprotect,
	"delete-unreadable": (*script).deleteUnreadable,
	"import":            (*script).importObject, "close-session": (*script).closeSession,
	// the collector and the built-in finalizers
	"collect": (*script).collect, "strip": (*script).strip, "orphan": (*script).orphan, "finish": (*script).finish, "drain": (*script).drain,
	"unblock": (*script).unblock,
	"settle":  (*script).settle,
	// protection policies
	"actor": (*script).actor, "cover": (*script).cover,
	// brakes
	"expire": (*script).expire, "answer": (*script).answer, "brake": (*script).brake, "release": (*script).release,
	// questions
	"evaluate": (*script).evaluate, "classify": (*script).classify, "pending": (*script).pending, "show": (*script).show,
	"read": (*script).read,
	// the story itself
	"advance": (*script).advance, "new-realm": (*script).newRealm,
	// whole tables of small stories
	"delete-table": deleteTable, "grace-table": graceTable, "repeat-table": repeatTable, "classify-table": classifyTable, "decide-table": decideTable,
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	command := commands[d.Cmd]
	if command == nil {
		d.Fatalf(t, "there is no command %q", d.Cmd)
	}
	a := &args{t: t, d: d, values: map[string][]string{}, namespace: "default"}
	for i := 0; i < len(d.CmdArgs); i++ {
		switch arg := d.CmdArgs[i]; {
		case arg.Key == "in" && i+1 < len(d.CmdArgs):
			i++
			a.namespace = d.CmdArgs[i].Key
		case strings.Contains(arg.Key, "/") && arg.Vals == nil:
			a.targets = append(a.targets, arg.Key)
		default:
			a.values[arg.Key] = arg.Vals
		}
	}
	if a.flag("no-namespace") {
		a.namespace = ""
	}
	out := command(s, a)
	for key := range a.values {
		d.Fatalf(t, "%s does not take %q", d.Cmd, key)
	}
	return out
}

// args are what a command is given. Whatever is read is taken out, so that
// what is misspelt is found.
type args struct {
	t         *testing.T
	d         *datadriven.TestData
	targets   []string
	namespace string
	values    map[string][]string
}

func (a *args) has(key string) bool {
	_, ok := a.values[key]
	return ok
}

// flag takes a word that stands alone.
func (a *args) flag(key string) bool {
	has := a.has(key)
	delete(a.values, key)
	return has
}

// list takes key=(a, b). key=() is the empty list.
func (a *args) list(key string) []string {
	list := a.values[key]
	delete(a.values, key)
	if len(list) == 1 && list[0] == "" {
		return []string{}
	}
	return list
}

// text takes key=value.
func (a *args) text(key string) string {
	list := a.list(key)
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	a.d.Fatalf(a.t, "%s has one value", key)
	return ""
}

func (a *args) number(key string) int64 {
	text := a.text(key)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	a.must(err)
	return n
}

func (a *args) must(err error) {
	a.t.Helper()
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
}

// key is the key of the i-th object that the command names.
func (a *args) key(s *script, i int) lifecycle.Key {
	a.t.Helper()
	if i >= len(a.targets) {
		a.d.Fatalf(a.t, "which object?")
	}
	resource, name, _ := strings.Cut(a.targets[i], "/")
	kind := s.realm.Kinds().Resource(resource)
	if kind == nil {
		a.d.Fatalf(a.t, "there is no resource %q", resource)
	}
	k := lifecycle.Key{Kind: kind, Namespace: a.namespace, Name: name}
	if !kind.Namespaced() && a.namespace == "default" {
		k.Namespace = ""
	}
	return k
}

// node is the i-th object that the command names, which must be there.
func (a *args) node(s *script, i int) *lifecycle.Node {
	a.t.Helper()
	n, err := lifecycle.Find(s.realm, a.key(s, i))
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
	return n
}

// advance lets time pass: advance by=10m.
func (s *script) advance(a *args) string {
	d, err := time.ParseDuration(a.text("by"))
	a.must(err)
	s.realm.Clock = s.realm.Clock.Add(d)
	return "it is " + since(s.realm.Clock)
}

// newRealm begins another story.
func (s *script) newRealm(*args) string {
	*s = *newScript()
	return ""
}

// since is a point in time as what has passed since the beginning.
func since(t lifecycle.Time) string {
	switch t {
	case 0:
		return "none"
	case lifecycle.Never:
		return "never"
	}
	d := t.Time().Sub(lifecycletest.Start.Time())
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

// at reads what since writes.
func (a *args) at(key string) lifecycle.Time {
	text := a.text(key)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return lifecycle.TimeOf(t)
	}
	d, err := time.ParseDuration(text)
	a.must(err)
	return lifecycletest.Start.Add(d)
}

func list(of []string) string { return "[" + strings.Join(of, " ") + "]" }

// lines joins what is not empty.
func lines(of ...string) string {
	var b strings.Builder
	for _, line := range of {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}
