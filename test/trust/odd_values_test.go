package trust_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// drawer draws the values of requests. What it draws depends on its seed, and on the
// objects that it knows.
type drawer struct {
	*rand.Rand
	known []*coppicev1.Object
}

// one returns one of the values.
func one[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// in reports true in one of n cases.
func (d *drawer) in(n int) bool { return d.IntN(n) == 0 }

// object is one of the known objects.
func (d *drawer) object() *coppicev1.Object { return d.known[d.IntN(1<<20)%len(d.known)] }

// invalid stands for bytes that are no UTF-8: it has their length, and is replaced in
// the encoded request.
const (
	invalid  = "ÿþ"
	invalid2 = "\xff\xc0\xff\xfe"
)

// oddTexts are valid for no field.
var oddTexts = []string{
	"", "\x00", " ", "\n", "*", ">", ".", "..", "a..b", "a.b", "_", "-", "/", "a/b/c", "%s%n%d", "null", "{}", `"`, "'", "\\", "../../etc/passwd",
	invalid, "\u202e", "\u0000a", "🙂", "İ", "A", "UPPER", "true", "0", "-1", "18446744073709551616", "1e999", "$JS.API.>", "coppice.default.log",
	strings.Repeat("x", 64), strings.Repeat("x", 254), strings.Repeat("a.", 127), strings.Repeat("é", 5000),
}

// texts are valid values by the name of the field.
var texts = map[protoreflect.Name][]string{
	"name": {"a", "b", "c", "d", "e"}, "names": {"a", "b", "c", "d", "e"}, "generate_name": {"g-", ""},
	"namespace": {"odd", "odder", ""}, "api_version": {"v1", "apps/v1", "coppice.dev/v1", ""},
	"kind":       {"Secret", "ConfigMap", "Pod", "Deployment", "Namespace", "Kind", "Realm", ""},
	"finalizers": {bus.ExampleFinalizer, controllerFinalizer, "orphan", "foregroundDeletion", "coppice.dev/contents", guard}, "finalizer": {bus.ExampleFinalizer, controllerFinalizer, "orphan", "foregroundDeletion", "coppice.dev/contents", guard},
	"propagation_policy": {"Foreground", "Background", "Orphan", ""}, "dry_run": {"All"}, "session": {"s1", "s2"},
	"label_selector": {"", "app=web", "app in (web,api),!x", "a>1", "app notin ()", strings.Repeat("a!=b,", 300)}, "policy": {noticed.Policy}, "continue": {"", "AGE", "b2RkAGE", "AA"},
	"version": {"v1", "v2", ""}, "plan": {"", "1.abc", "r1-00"}, "resource": {"pods", "secrets", "configmaps", "kinds.coppice.dev"}, "agents": {"pods", "deployments.apps"},
	"reason":  {"a test", "its bucket is gone", "é"},
	"subject": {"coppice.default.finalize._.secrets.u." + bus.ExampleFinalizer, "coppice.default.finalize.>", "coppice.default.log"},
}

// text draws the value of a field of this name.
func (d *drawer) text(field protoreflect.Name) string {
	if field == "uid" || field == "uids" {
		return one(d, d.object().GetMetadata().GetUid(), uid.New().String(), "x", d.oddText())
	}
	if list := texts[field]; len(list) > 0 && !d.in(6) {
		return one(d, list...)
	}
	return d.oddText()
}

func (d *drawer) oddText() string {
	if d.in(8) {
		return strings.Repeat(one(d, oddTexts...), 1+d.IntN(3)) + one(d, oddTexts...)
	}
	return one(d, oddTexts...)
}

// oddValues are JSON, or almost JSON.
var oddValues = []string{
	``, `{}`, `null`, `[]`, `"x"`, `0`, `{`, `{"a":1,"a":2}`, `{"a":1e999}`, `{"a":-0}`, `{"a":"\ud800"}`, `{"\u0000":1}`, "{\"a\":\"\xff\"}", "\xef\xbb\xbf{}",
	`{"a":[null,{"b":null}]}`, `{"observedGeneration":"x"}`, `{"observedGeneration":9223372036854775808}`, `{"observedGeneration":1.5}`, `{"conditions":{"a":[]}}`,
	`{"metadata":null}`, `{"metadata":{"finalizers":null}}`, `{"metadata":{"finalizers":["orphan","orphan"]}}`, `{"metadata":{"ownerReferences":[null]}}`, `{"metadata":{"labels":{"a":null,"b":1}}}`,
	`{"metadata":{"uid":"x","name":"y"}}`, `{"metadata":{"resourceVersion":"0"}}`, `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`, `{"spec":null,"status":[]}`, `{"kind":"","apiVersion":1}`,
	`{"ownerGrace":"-1s"}`, `{"ownerGrace":"9999999h","importIdle":"0s"}`, `{"processorPropagation":"x"}`,
	`{"group":"example.com","plural":"widgets","kind":"Widget","scope":"Namespaced","versions":[{"name":"v1"}]}`,
	`{"group":"","plural":"","kind":"","scope":"","versions":null}`, `{"group":"*","plural":">","kind":"x","scope":"Cluster","versions":[{"name":""}]}`,
	strings.Repeat(`{"a":`, 900) + `1` + strings.Repeat(`}`, 900), strings.Repeat(`[`, 10000), `{"text":"` + strings.Repeat("x", 70000) + `"}`,
}

// bytes draws the value of a field of bytes: uids in packed form, or JSON.
func (d *drawer) bytes(field protoreflect.Name) []byte {
	switch field {
	case "uids", "collect", "strip", "owner", "dependents":
		var b []byte
		for range d.IntN(4) {
			u, err := uid.Parse(d.object().GetMetadata().GetUid())
			if err != nil || d.in(8) {
				u = uid.New()
			}
			b = uid.Pack(b, u)
		}
		return d.mutated(b, 6)
	}
	if d.in(10) {
		b := make([]byte, d.IntN(40))
		for i := range b {
			b[i] = byte(d.Uint32())
		}
		return b
	}
	return []byte(one(d, oddValues...))
}

// mutated changes some bytes, in one of n cases.
func (d *drawer) mutated(b []byte, n int) []byte {
	if !d.in(n) || len(b) == 0 {
		return b
	}
	b = bytes.Clone(b)
	for range 1 + d.IntN(3) {
		i := d.IntN(len(b))
		switch d.IntN(5) {
		case 0:
			b[i] = byte(d.Uint32())
		case 1:
			b = b[:max(i, 1)]
		case 2:
			b = append(b, b[i:]...)
		case 3:
			b[i] ^= 1 << d.IntN(8)
		default:
			b = append(b[:i:i], append([]byte{byte(d.Uint32())}, b[i:]...)...)
		}
	}
	return b
}

// revision draws a revision that mostly is reached: requests wait several seconds for
// another one, and processors half a minute.
func (d *drawer) revision() uint64 {
	if d.in(1000) {
		return d.number()
	}
	return uint64(d.IntN(3))
}

func (d *drawer) number() uint64 {
	return one(d, 0, 0, 1, 2, 10, 1<<31-1, 1<<31, 1<<32-1, 1<<32, 1<<62, math.MaxInt64, 1<<63, math.MaxUint64, uint64(d.IntN(1000)), d.Uint64())
}

// fill sets fields of a message to values that are drawn.
func (d *drawer) fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.Name() == "protocol":
			m.Set(f, protoreflect.ValueOfUint32(bus.Protocol))
			if d.in(40) {
				m.Set(f, protoreflect.ValueOfUint32(uint32(d.number())))
			}
		case d.in(3):
		case f.IsMap():
			for range d.IntN(3) {
				key := protoreflect.ValueOfString(one(d, "app", "a", "b.c/d", d.oddText())).MapKey()
				m.Mutable(f).Map().Set(key, protoreflect.ValueOfString(one(d, "web", "api", d.oddText())))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range d.count(f) {
				list.Append(d.value(f, list.NewElement()))
			}
		default:
			m.Set(f, d.value(f, m.NewField(f)))
		}
	}
}

// count draws how many elements a list has.
func (d *drawer) count(f protoreflect.FieldDescriptor) int {
	if d.in(400) && f.Message() == nil {
		return one(d, 1001, 12000)
	}
	return one(d, 0, 1, 1, 1, 2, 5)
}

// value draws a value; of a message it is empty.
func (d *drawer) value(f protoreflect.FieldDescriptor, empty protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(d.in(2))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(d.text(f.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(d.bytes(f.Name()))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(d.number()))
	case protoreflect.MessageKind:
		if !d.in(8) {
			d.fill(empty.Message())
		}
		return empty
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(d.number()))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(d.number()))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(d.number()))
	case protoreflect.Uint64Kind:
		if f.Name() == "min_revision" || f.Name() == "from_revision" || f.Name() == "revision" {
			return protoreflect.ValueOfUint64(d.revision())
		}
		return protoreflect.ValueOfUint64(d.number())
	default:
		panic(fmt.Sprintf("%s: values of %v are not drawn", f.FullName(), f.Kind()))
	}
}

// plausible changes a drawn object so that it may be accepted.
func (d *drawer) plausible(o *coppicev1.Object) {
	o.ApiVersion, o.Kind, o.Extra = "", "", nil
	m := o.GetMetadata()
	if m == nil {
		m = &coppicev1.ObjectMeta{}
		o.Metadata = m
	}
	m.Name, m.GenerateName, m.Namespace, m.Uid, m.ResourceVersion, m.Generation = one(d, texts["name"]...), "", "", "", 0, 0
	m.CreationTimestamp, m.DeletionTimestamp, m.DeletionGracePeriodSeconds, m.Initializers = nil, nil, nil, nil
	m.Labels, m.Annotations, m.Finalizers, m.OwnerReferences = map[string]string{"app": one(d, "web", "api")}, nil, nil, nil
	if d.in(3) {
		m.Finalizers = []string{one(d, bus.ExampleFinalizer, controllerFinalizer, "foregroundDeletion", "orphan", guard)}
	}
	for range d.IntN(3) {
		owner := d.object()
		blocks := d.in(2)
		m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{
			ApiVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: owner.GetMetadata().GetName(), Uid: owner.GetMetadata().GetUid(), BlockOwnerDeletion: &blocks,
		})
	}
	o.Spec, o.Status = []byte(one(d, `{}`, `{"a":1}`, ``)), nil
}
