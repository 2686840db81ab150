package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Server replies to the requests of scripts.
type Server interface {
	// Do replies to one request. An error ends the script. A refusal is a reply, and no
	// error.
	Do(context.Context, Request) (*Reply, error)
}

// Verb is the operation of a request.
type Verb string

// The verbs of requests.
const (
	Get          Verb = "get"
	Create       Verb = "create"
	Update       Verb = "update"
	UpdateStatus Verb = "update-status"
	Patch        Verb = "patch" // a merge patch, RFC 7386
	Delete       Verb = "delete"
)

// Request is a request for one object.
type Request struct {
	Verb      Verb
	Kind      Kind
	Namespace string // "" for kinds without
	Name      string // "" for Create
	Body      []byte // JSON: an object, a patch, or DeleteOptions; nil for none
	DryRun    bool   // for a DELETE it is in the body
}

// Reply is the part of a reply that scripts test.
type Reply struct {
	Code int
	// Object is nil if the request was refused or removed the object.
	Object Object
	// Reason, Message and Causes are those of a refusal.
	Reason  string
	Message string
	Causes  []Cause
	// Warned reports whether there are warnings.
	Warned bool
}

// Cause is one mistake in a request.
type Cause struct {
	Reason string `json:"reason"`
	Field  string `json:"field"`
}

// Kind is a kind in Group and Version that the servers know.
type Kind struct {
	Kind, Plural string
	Namespaced   bool
}

// The group and version of all kinds.
const (
	Group      = "example.com"
	Version    = "v1"
	apiVersion = Group + "/" + Version
)

// Kinds returns the kinds of the objects in scripts.
func Kinds() []Kind {
	return []Kind{{Kind: "Widget", Plural: "widgets", Namespaced: true}, {Kind: "Rack", Plural: "racks"}}
}

func kindOf(matches func(Kind) bool) (Kind, bool) {
	kinds := Kinds()
	if i := slices.IndexFunc(kinds, matches); i >= 0 {
		return kinds[i], true
	}
	return Kind{}, false
}

// Object is an object in JSON.
type Object map[string]any

func (o Object) metadata() map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

// text returns a field of metadata, "" if there is none.
func (o Object) text(field string) string {
	s, _ := o.metadata()[field].(string)
	return s
}

// list returns a list of metadata.
func (o Object) list(field string) []any {
	l, _ := o.metadata()[field].([]any)
	return l
}

// copied returns a copy of an object that can be changed.
func (o Object) copied() (Object, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("copy an object: %w", err)
	}
	return ReadObject(raw)
}

// ReadObject reads JSON.
func ReadObject(raw []byte) (Object, error) {
	var o Object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return o, nil
}
