package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var fieldPattern = regexp.MustCompile(`^(spec|status)(\.[A-Za-z][A-Za-z0-9]*)+$`)

// matches reports whether the condition is true of an object.
func matches(c FieldCondition, b *coppicev1.Body) bool {
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
	if g == nil || slices.ContainsFunc(g.Except, func(c FieldCondition) bool { return matches(c, b) }) {
		return nil
	}
	seconds := g.DefaultSeconds
	if own, ok := integer(member(b.GetSpec(), "terminationGracePeriodSeconds")); ok {
		seconds = own
	}
	seconds = min(leastGrace(seconds), maxGrace)
	return &seconds
}

// maxGrace is the longest grace period in seconds, 68 years: with it a
// deletionTimestamp stays within the years that a timestamp has. (Kubernetes
// has no bound, and with 9,300,000,000 its time overflows to the year 1737.)
const maxGrace = math.MaxInt32

// checkGrace reports a grace period that is longer than maxGrace. A client that
// asks for one is refused; one in a spec, which Coppice does not validate,
// counts as maxGrace.
func checkGrace(field string, seconds int64) []Cause {
	if seconds > maxGrace {
		return []Cause{invalidValue(field, seconds, fmt.Sprintf("must be less than or equal to %d", maxGrace))}
	}
	return nil
}

// integer is the value of a number without fraction or exponent, as Kubernetes
// reads an int64; one that is out of range is the nearest that is not.
func integer(r gjson.Result) (n int64, ok bool) {
	if r.Type != gjson.Number {
		return 0, false
	}
	n, err := strconv.ParseInt(r.Raw, 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// leastGrace is a grace period that can be: a negative one counts as 1 (A4.5).
func leastGrace(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
}

// derive copies into the node what a deletion needs from the body, so that a cascade need not
// read bodies. It is called for every change of the body, with the kind as it is at that time.
func derive(n *Node, k *Kind, b *coppicev1.Body) {
	n.Grace = graceOf(k, b)
	n.ObservedGeneration, _ = integer(member(b.GetStatus(), "observedGeneration"))
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
	causes = append(causes, checkGrace("spec.gracefulDeletion.defaultSeconds", g.DefaultSeconds)...)
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
