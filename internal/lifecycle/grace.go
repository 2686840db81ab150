package lifecycle

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// GracefulDeletion is what a kind says of objects that stand for something that
// has to be ended in an orderly way: a DELETE gives an agent a grace period,
// and the object is removed when the agent confirms by a DELETE without grace
// (A5).
type GracefulDeletion struct {
	// DefaultSeconds is the grace period where neither the DELETE nor the
	// object's spec.terminationGracePeriodSeconds says another.
	DefaultSeconds int64 `json:"defaultSeconds"`
	// Except are objects that no agent has to end: they go at once, whatever
	// the DELETE says, where one of these holds.
	Except []FieldCondition `json:"except,omitempty"`
}

// FieldCondition holds if a field of spec or status has one of these values.
// A field that is not there is the empty string.
type FieldCondition struct {
	// Field is a path such as "spec.nodeName".
	Field string   `json:"field"`
	In    []string `json:"in"`
}

var fieldPattern = regexp.MustCompile(`^(spec|status)(\.[A-Za-z][A-Za-z0-9]*)+$`)

func (c FieldCondition) holds(b *coppicev1.Body) bool {
	part, path, _ := strings.Cut(c.Field, ".")
	raw := b.GetSpec()
	if part == "status" {
		raw = b.GetStatus()
	}
	return slices.Contains(c.In, member(raw, path).String())
}

// member is what JSON has at a path of names. Most objects have none of those
// that are asked for, and it costs little to see that a name is nowhere, unless
// it may be spelt with escapes.
func member(raw []byte, path string) gjson.Result {
	name, _, _ := strings.Cut(path, ".")
	if !bytes.Contains(raw, []byte(name)) && bytes.IndexByte(raw, '\\') < 0 {
		return gjson.Result{}
	}
	return gjson.GetBytes(raw, path)
}

// graceOf is the grace period that an object asks for, in seconds; nil if no
// agent has to end it.
func graceOf(k *Kind, b *coppicev1.Body) *int64 {
	g := k.GracefulDeletion
	if g == nil || slices.ContainsFunc(g.Except, func(c FieldCondition) bool { return c.holds(b) }) {
		return nil
	}
	seconds := g.DefaultSeconds
	if own := member(b.GetSpec(), "terminationGracePeriodSeconds"); own.Type == gjson.Number {
		seconds = own.Int()
	}
	seconds = leastGrace(seconds)
	return &seconds
}

// leastGrace is a grace period that can be: a negative one counts as 1 (A4.5).
func leastGrace(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
}

// derive notes in the node what deleting the object has to know of its body, so
// that a cascade need not read it. It is noted with every change of the body,
// by what the kind says at that time.
func derive(n *Node, k *Kind, b *coppicev1.Body) {
	n.Grace = graceOf(k, b)
	n.ObservedGeneration = member(b.GetStatus(), "observedGeneration").Int()
}

// Acknowledged reports whether the built-in finalizers may act on a terminating
// object: its controller has seen the deletion, if the kind says that it does
// (seed 000, A7).
func (n *Node) Acknowledged() bool { return n.ObservedGeneration >= n.AwaitedGeneration }

func validateGraceful(g *GracefulDeletion) []Cause {
	if g == nil {
		return nil
	}
	var causes []Cause
	if g.DefaultSeconds < 0 {
		causes = append(causes, invalidValue("spec.gracefulDeletion.defaultSeconds", g.DefaultSeconds, "must be greater than or equal to 0"))
	}
	for i, c := range g.Except {
		field := fmt.Sprintf("spec.gracefulDeletion.except[%d]", i)
		if !fieldPattern.MatchString(c.Field) {
			causes = append(causes, invalidValue(field+".field", c.Field, `must be a path of names that starts with "spec." or "status."`))
		}
		if len(c.In) == 0 {
			causes = append(causes, required(field+".in", "the values with which the object goes at once"))
		}
	}
	return causes
}
