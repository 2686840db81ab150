package access_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// schema is what the test reads of a JSON schema.
type schema struct {
	Ref                  string `json:"$ref"`
	Description, Pattern string
	Enum                 []string
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties any
	Defs                 map[string]*schema `json:"$defs"`
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	data, err := os.ReadFile("../../deploy/nats/users.schema.json")
	must.Succeed(t, err)
	var s schema
	must.Succeed(t, json.Unmarshal(data, &s))
	return &s
}

// The schema of users files has the fields that Parse reads, each with a description, and the verbs of rules.
func TestSchemaHasTheFields(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for of, is := range map[*schema]any{s: access.File{}, s.Defs["user"]: access.User{}, s.Defs["password"]: access.Password{}, s.Defs["rule"]: access.Rule{}} {
		var want []string
		for f := range reflect.TypeOf(is).Fields() {
			if tag, has := f.Tag.Lookup("yaml"); has {
				name, _, _ := strings.Cut(tag, ",")
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(of.Properties)); !slices.Equal(got, want) {
			t.Errorf("%T: the schema has the fields %q, and Parse reads %q", is, got, want)
		}
		if of.AdditionalProperties == nil || of.AdditionalProperties == true {
			t.Errorf("%T: the schema allows fields that Parse refuses", is)
		}
		for name, p := range of.Properties {
			if p.Description == "" && s.Defs[strings.TrimPrefix(p.Ref, "#/$defs/")] == nil {
				t.Errorf("%T: the field %s has no description", is, name)
			}
		}
	}
	if got := s.Defs["verb"].Enum; !slices.Equal(got, access.Verbs()) {
		t.Errorf("the schema has the verbs %q, and rules may name %q", got, access.Verbs())
	}
}

// The patterns of the schema accept what Parse accepts, and refuse what it refuses.
func TestSchemaPatterns(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for _, c := range []struct {
		def, yaml string
		values    map[string]bool // whether it is allowed
	}{
		{"kind", "may: [{verbs: [get], kinds: ['X']}]", map[string]bool{"pods": true, "deployments.apps": true, "*.example.com": true, "*": true, "A": false, "*.": false, "": false, "a b": false}},
		{"namespace", "may: [{verbs: [get], namespaces: ['X']}]", map[string]bool{"shop": true, "team-*": true, "_": true, "*": true, "A": false, "a.b": false, "": false, "-a": false}},
		{"realm", "may: [{verbs: [get], realms: ['X']}]", map[string]bool{"default": true, "*": true, "A": false, "a-": false, "": false}},
		{"finalizer", "finalizers: ['X']", map[string]bool{"example.com/bucket": true, "foregroundDeletion": false, "": false, "example.com/a b": false}},
	} {
		pattern := regexp.MustCompile(s.Defs[c.def].Pattern)
		for value, want := range c.values {
			_, err := access.Parse("users.yaml", []byte("version: 1\nnamespaces: [team-a]\nusers: {a: {"+strings.Replace(c.yaml, "X", value, 1)+"}}"))
			if parsed := err == nil; parsed != want || pattern.MatchString(value) != want {
				t.Errorf("%s %q: the schema says %t, Parse says %v; want %t", c.def, value, pattern.MatchString(value), err, want)
			}
		}
	}
}

// The example has every field, and is a users file.
func TestExample(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../deploy/nats/users.yaml")
	must.Succeed(t, err)
	f, err := access.Parse("users.yaml", data)
	must.Succeed(t, err)
	if len(f.NATSRoles()) != len(f.Users) {
		t.Errorf("%d roles of %d users", len(f.NATSRoles()), len(f.Users))
	}
	for _, of := range []any{access.File{}, access.User{}, access.Password{}, access.Rule{}} {
		for field := range reflect.TypeOf(of).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if name != "" && !regexp.MustCompile(`(?m)^[ -]*`+name+`:`).Match(data) {
				t.Errorf("the example has no field %s of %T", name, of)
			}
		}
	}
	if !strings.HasPrefix(string(data), "# yaml-language-server: $schema=users.schema.json\n") {
		t.Error("the example does not name its schema in its first line")
	}
}
