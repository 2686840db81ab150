package formats_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// message is a commit as it is stored, and uncompressed.
type message struct{ stored, opened *coppicev1.Commit }

// messages returns the commits of a segment.
func messages(t *testing.T, file []byte) (list []message) {
	t.Helper()
	r, err := segment.Open(bytes.NewReader(file), int64(len(file)))
	must.Succeed(t, err)
	for c, err := range r.Commits(0) {
		must.Succeed(t, err)
		content, err := eventlog.Message{Position: c.Position, Data: c.Message}.Open(new([]byte))
		must.Succeed(t, err)
		m := message{&coppicev1.Commit{}, &coppicev1.Commit{}}
		must.Succeed(t, errors.Join(proto.Unmarshal(c.Message, m.stored), proto.Unmarshal(content, m.opened)))
		list = append(list, m)
	}
	return list
}

// describe describes a state, and the events of the log that led to it, for people. It does not
// depend on the layout of the state, and has no fields that are zero, so that later versions give the same text.
func describe(t *testing.T, s *state.State, log []message) string {
	t.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	var b strings.Builder
	cp := snap.Checkpoint()
	totals, err := snap.Totals()
	must.Succeed(t, err)
	fmt.Fprintf(&b, "commit %d, revision %d, checksum %016x, realm id %x\n", cp.GetSequence(), cp.GetRevision(), cp.GetChecksum(), cp.GetRealmId())
	fmt.Fprintf(&b, "%d objects, %d edges, %d pending\n", totals.Objects, totals.Edges, totals.Pending)
	if r := snap.Realm(); !reflect.ValueOf(r).IsZero() {
		fmt.Fprintf(&b, "realm %s\n", fields(r))
	}
	var objects []string
	resources := map[string]bool{}
	describeNode := func(n *lifecycle.Node) bool {
		m, err := manifest.MarshalMessage(lifecycle.Object{Node: n, Body: snap.Body(n)}.API())
		must.Succeed(t, err)
		var text bytes.Buffer
		must.Succeed(t, json.Compact(&text, m))
		kind := snap.Kinds().OfNode(n)
		resources[kind.Resource()] = true
		line := fmt.Sprintf("%s/%s %s", kind.Resource(), n.Name, text.String())
		if work, ok := snap.Pending(n.UID); ok {
			line += fmt.Sprintf("\n  pending %s since %d revision %d", fields(work.Pending), work.Since, work.Revision)
		}
		if snap.Released(n.UID) {
			line += "\n  released"
		}
		objects = append(objects, line)
		return true
	}
	for _, k := range snap.Kinds().All() {
		snap.Nodes(k, "", state.NameCursor{}, describeNode)
	}
	slices.Sort(objects)
	if totals.Objects != len(objects) { // a node without a name is not among those that a kind lists
		t.Errorf("the state has %d nodes, and its kinds have %d objects", totals.Objects, len(objects))
	}
	b.WriteString("\n# kinds\n")
	for _, k := range snap.Kinds().All() {
		brake, count := snap.Brake(k)
		if count > 0 || brake != (lifecycle.Brake{}) || resources[k.Resource()] {
			fmt.Fprintf(&b, "%s %d objects, brake %s\n", k.Resource(), count, fields(brake))
		}
	}
	b.WriteString("\n# objects\n")
	for _, o := range objects {
		fmt.Fprintln(&b, o)
	}
	b.WriteString("\n# events\n")
	for _, m := range log {
		c := m.opened
		for _, e := range client.Events(c, func(_, kind string) string { return kind }) {
			removed := ""
			if u, err := uid.Parse(e.UID); err == nil {
				if at, ok := snap.RemovedAt(u); ok {
					removed = fmt.Sprintf(" removed in commit %d", at)
				}
			}
			fmt.Fprintf(&b, "%d %d %s %s/%s %s %s cause %d, %s %s %q%s\n", c.GetSequence(), e.Revision, e.Type, e.Resource, e.Name, e.UID,
				strings.TrimPrefix(e.Reason.String(), "REASON_"), e.Cause, e.Actor, e.Verb, e.Note, removed)
		}
	}
	must.Succeed(t, snap.Err())
	return b.String()
}

// fields returns the exported fields of a struct that are not zero.
func fields(of any) string {
	var list []string
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			list = append(list, fmt.Sprintf("%s=%v", f.Name, v.Field(i).Interface()))
		}
	}
	return "{" + strings.Join(list, " ") + "}"
}
