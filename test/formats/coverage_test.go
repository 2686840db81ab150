package formats_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Some recording has each field of the messages of the log, and each reason, but for those that
// testdata/unrecorded.txt names. A new one needs a recording: see the package comment.
func TestEveryFieldIsRecorded(t *testing.T) {
	t.Parallel()
	recorded := map[string]bool{}
	for _, dir := range recordings(t) {
		for _, c := range messages(t, read(t, dir, logFile)) {
			present(c.stored.ProtoReflect(), recorded)
			present(c.opened.ProtoReflect(), recorded)
		}
	}
	known := map[string]bool{}
	declared((&coppicev1.Commit{}).ProtoReflect().Descriptor(), known)
	b, err := os.ReadFile("testdata/unrecorded.txt")
	must.Succeed(t, err)
	excused := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			excused[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		switch {
		case !recorded[name] && !excused[name]:
			t.Errorf("no recording has %s: run a script of cmd/coppice that writes it with -record, and add its log with -add", name)
		case recorded[name] && excused[name]:
			t.Errorf("a recording has %s: take it out of testdata/unrecorded.txt", name)
		}
	}
}

// present adds the fields and enumeration values that a message has.
func present(m protoreflect.Message, to map[string]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to[nameOf(f)] = true
		visit := func(v protoreflect.Value) {
			switch {
			case f.Message() != nil && !f.IsMap():
				present(v.Message(), to)
			case f.Enum() != nil:
				if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
					to[string(value.Name())] = true
				}
			}
		}
		if !f.IsList() {
			visit(v)
			return true
		}
		for i := range v.List().Len() {
			visit(v.List().Get(i))
		}
		return true
	})
}

// declared adds the fields of messages, and the values of their enumerations but for zero.
func declared(d protoreflect.MessageDescriptor, to map[string]bool) {
	if d.FullName().Parent() != proto.MessageName(&coppicev1.Commit{}).Parent() {
		return
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if to[nameOf(f)] {
			return
		}
		to[nameOf(f)] = true
		if e := f.Enum(); e != nil {
			for j := range e.Values().Len() {
				if v := e.Values().Get(j); v.Number() != 0 {
					to[string(v.Name())] = true
				}
			}
		}
		if f.Message() != nil && !f.IsMap() {
			declared(f.Message(), to)
		}
	}
}

// nameOf returns the name of a field as Message.field.
func nameOf(f protoreflect.FieldDescriptor) string {
	return string(f.Parent().Name()) + "." + string(f.Name())
}
