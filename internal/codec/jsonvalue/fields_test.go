package jsonvalue_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// someJSON draws values with few names, so that drawn values have members in common.
func someJSON(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 9).Draw(t, "sort") {
	case 0:
		return nil
	case 1:
		return []any{"x", map[string]any{"a": nil}}
	case 2:
		return rapid.SampledFrom([]any{"", "te\"xt", 1.0, true, map[string]any{}, []any{}, "}{,"}).Draw(t, "value")
	}
	if depth == 0 {
		return "leaf"
	}
	members := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		members[rapid.SampledFrom([]string{"a", "b", "f:c", `"`, "é\n", ""}).Draw(t, "name")] = someJSON(t, depth-1)
	}
	return members
}

func encoded(t *rapid.T, v any) []byte {
	raw, err := json.MarshalIndent(v, " ", "\t")
	must.Succeed(t, err)
	return raw
}

// fieldsOf is the set of a decoded value.
func fieldsOf(v any) jsonvalue.Fields {
	f := jsonvalue.Fields{}
	if members, ok := v.(map[string]any); ok {
		for name, member := range members {
			if member != nil {
				f["f:"+name] = fieldsOf(member)
			}
		}
	}
	return f
}

func written(t *rapid.T, raw []byte) jsonvalue.Fields {
	w := jsonvalue.NewFieldsWriter(0)
	w.AddValue("spec", raw)
	f, err := jsonvalue.ParseFields(w.Bytes())
	if err != nil {
		t.Fatalf("the set of %s is %s: %v", raw, w.Bytes(), err)
	}
	return f
}

// The set that is written without decoding the value is that of the decoded value. AddMembers writes
// the same without the member around it.
func TestFieldsWriter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := someJSON(t, 3)
		raw := encoded(t, v)
		if got, want := written(t, raw), (jsonvalue.Fields{"f:spec": fieldsOf(v)}); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s has the set %v, want %v", raw, got, want)
		}
		if _, ok := v.(map[string]any); !ok {
			return
		}
		w := jsonvalue.NewFieldsWriter(0)
		w.AddMembers(raw)
		got, err := jsonvalue.ParseFields(w.Bytes())
		if want := fieldsOf(v); err != nil || len(want) != len(got) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("the members of %s are %v, want %v: %v", raw, got, want, err)
		}
	})
}

// Names with quotes are read as they were written, and members that got no members are left out.
func TestFieldsWriterNames(t *testing.T) {
	t.Parallel()
	w := jsonvalue.NewFieldsWriter(0)
	w.Close(w.OpenMember("none"))
	owners := w.OpenMember("owners")
	w.Add(jsonvalue.KeyName("uid", `a"b`, "group", "", "name", "n"))
	w.Close(owners)
	w.Add(jsonvalue.ElementName("example.com/x"))
	const want = `{"f:owners":{"k:{\"uid\":\"a\\\"b\",\"name\":\"n\"}":{}},"v:\"example.com/x\"":{}}`
	if got := string(w.Bytes()); got != want {
		t.Errorf("written: %s, want %s", got, want)
	}
	if got := jsonvalue.NewFieldsWriter(0).Bytes(); got != nil {
		t.Errorf("the empty set is %q", got)
	}
}

// applied is the value after a manifest was applied to an object, by a plain description: a member of the manifest holds; one that
// the manifest before had, and this one does not have, goes unless it has members of others.
func applied(stored any, before jsonvalue.Fields, manifest any) any {
	is, isMap := stored.(map[string]any)
	says, saysMap := manifest.(map[string]any)
	if !saysMap {
		return manifest
	}
	result := map[string]any{}
	if isMap {
		for name, member := range is {
			of, was := before["f:"+name]
			inner, nested := member.(map[string]any)
			switch _, said := says[name]; {
			case said: // below
			case !was, len(of) == 0 && len(inner) > 0:
				result[name] = member
			case nested:
				if rest := applied(member, of, map[string]any{}).(map[string]any); len(rest) > 0 {
					result[name] = rest
				}
			}
		}
	}
	for name, member := range says {
		if member != nil {
			var of any
			if isMap {
				of = is[name]
			}
			result[name] = applied(of, before["f:"+name], member)
		}
	}
	return result
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := func(label string) map[string]any {
			v, ok := someJSON(t, 3).(map[string]any)
			if !ok {
				v = map[string]any{label: 1.0}
			}
			return v
		}
		stored, before, manifest := object("stored"), object("before"), object("manifest")
		lost := fieldsOf(before).Minus(fieldsOf(manifest))
		raw, err := jsonvalue.ApplyPatch(encoded(t, stored), encoded(t, manifest), lost)
		must.Succeed(t, err)
		var got any
		must.Succeed(t, json.Unmarshal(raw, &got))
		if want := applied(stored, fieldsOf(before), manifest); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s with %s applied after %s is %s, want %s", encoded(t, stored), encoded(t, manifest), encoded(t, before), raw, encoded(t, want))
		}
		again, err := jsonvalue.ApplyPatch(raw, encoded(t, manifest), nil)
		if err != nil || string(again) != string(raw) {
			t.Fatalf("applied again: %s, was %s: %v", again, raw, err)
		}
	})
}

// The last member takes the value with it, unless the manifest has it.
func TestApplyMember(t *testing.T) {
	t.Parallel()
	parse := func(text string) jsonvalue.Fields {
		f, err := jsonvalue.ParseFields([]byte(text))
		must.Succeed(t, err)
		return f
	}
	for _, q := range []struct{ stored, manifest, lost, want string }{
		{`{"a":1}`, ``, `{"f:spec":{"f:a":{}}}`, ``},
		{`{"a":1,"b":2}`, ``, `{"f:spec":{"f:a":{}}}`, `{"b":2}`},
		{`{"a":1}`, `{}`, `{"f:spec":{"f:a":{}}}`, `{}`},
		{`{}`, ``, `{"f:spec":{}}`, ``},
		{`[1]`, ``, `{"f:spec":{}}`, ``},
		{`{"b":2}`, ``, `{"f:spec":{}}`, `{"b":2}`},
		{`[1]`, ``, `{"f:spec":{"f:a":{}}}`, ``},
		{`"x"`, ``, `{"f:spec":{"f:a":{}}}`, ``},
		{`"x"`, `{"b":1}`, `{"f:spec":{"f:a":{}}}`, `{"b":1}`},
		{`{"m":[1],"n":"x","o":2}`, ``, `{"f:spec":{"f:m":{"f:a":{}},"f:n":{"f:a":{}}}}`, `{"o":2}`},
		{``, ``, `{"f:spec":{"f:a":{}}}`, ``},
		{``, `{"a":1}`, ``, `{"a":1}`},
		{`{"a":1}`, ``, `{"f:data":{"f:a":{}}}`, `{"a":1}`},
	} {
		got, err := jsonvalue.ApplyMember("spec", []byte(q.stored), []byte(q.manifest), parse(q.lost))
		if err != nil || string(got) != q.want {
			t.Errorf("%s with %s, without %s: %s, %v, want %s", q.stored, q.manifest, q.lost, got, err, q.want)
		}
	}
}
