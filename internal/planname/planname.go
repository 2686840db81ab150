// Package planname spells the names of plans. The name of a plan says with which options the
// deletion was planned, so that a command line needs no other flag to carry it out, and no service
// has to keep plans:
//
//	foreground-8a3c8b8e61cf3e52@87
//	orphan-grace30-with5d41402a-8a3c8b8e61cf3e52@87
//
// The first word is the propagation policy. The last is the hash of the plan, which covers the options
// too, and the revision at which the plan was computed.
package planname

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The numbers of hexadecimal digits in a name.
const (
	hashDigits = 16
	moreDigits = 8
)

// Policies of Options that are no propagation policies.
const (
	Mixed     = "Mixed"     // the parts of the deletion have different policies or grace periods
	Unprotect = "Unprotect" // the removal of protections is planned
)

// words are the first words of names, by the policy.
var words = map[string]string{
	"": "default", lifecycle.Background: "background", lifecycle.Foreground: "foreground", lifecycle.Orphan: "orphan",
	Mixed: "mixed", Unprotect: "unprotect",
}

// Options are the options of a deletion as the name of its plan says them.
type Options struct {
	// Policy is the propagation policy, Mixed or Unprotect; empty if the objects and their kinds decide.
	Policy string
	// Grace is the grace period in seconds, if HasGrace.
	Grace    int64
	HasGrace bool
	// More is a hash of what the name does not spell: preconditions, the version of the kind, and the
	// options of parts that differ. It is empty if there is nothing of it.
	More string
}

// Name is the name of a plan.
type Name struct {
	Options
	Hash     string
	Revision uint64 // zero if it is not given
}

// Of returns the options of the parts of a deletion.
func Of(parts ...*coppicev1.DeleteRequest) (o Options) {
	var texts []string
	plain := true
	for i, part := range parts {
		of := Options{Policy: lifecycle.PolicyOf(part.GetOptions())}
		of.Grace, of.HasGrace = lifecycle.GraceOf(part.GetOptions())
		if i > 0 && of != o {
			of = Options{Policy: Mixed}
			plain = false
		}
		o = of
		p := part.GetOptions().GetPreconditions()
		plain = plain && part.GetVersion() == "" && p.GetUid() == "" && p.GetResourceVersion() == 0
		texts = append(texts, Text(part))
	}
	if !plain {
		o.More = digest(texts)
	}
	return o
}

// OfUnprotect returns the options of a removal of protections.
func OfUnprotect(r *coppicev1.DeleteRequest) Options {
	o := Options{Policy: Unprotect}
	if p := r.GetOptions().GetPreconditions(); p.GetUid() != "" || p.GetResourceVersion() != 0 {
		o.More = digest([]string{Text(r)})
	}
	return o
}

// Text returns everything that a request says about how to delete, for a hash.
func Text(r *coppicev1.DeleteRequest) string {
	grace, given := lifecycle.GraceOf(r.GetOptions())
	p := r.GetOptions().GetPreconditions()
	return fmt.Sprintf("%s %t %d %q %d %q", lifecycle.PolicyOf(r.GetOptions()), given, grace, p.GetUid(), p.GetResourceVersion(), r.GetVersion())
}

// digest returns a hash of texts in any order.
func digest(texts []string) string {
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(texts), "\n")))
	return hex.EncodeToString(sum[:])[:moreDigits]
}

// Hash returns the hash of a plan in the form in which names have it. of is what the plan does.
func Hash(of [sha256.Size]byte) string { return hex.EncodeToString(of[:])[:hashDigits] }

func (n Name) String() string {
	s := words[n.Policy]
	if n.HasGrace {
		s += fmt.Sprintf("-grace%d", n.Grace)
	}
	if n.More != "" {
		s += "-with" + n.More
	}
	s += "-" + n.Hash
	if n.Revision != 0 {
		s += fmt.Sprintf("@%d", n.Revision)
	}
	return s
}

// Parse parses what String returns.
func Parse(s string) (n Name, err *lifecycle.Error) {
	begin, end, said := strings.Cut(s, "@")
	if said {
		n.Revision, _ = strconv.ParseUint(end, 10, 64)
	}
	list := strings.Split(begin, "-")
	known := false
	for policy, word := range words {
		if word == list[0] {
			n.Policy, known = policy, true
		}
	}
	n.Hash, list = list[len(list)-1], list[min(1, len(list)-1):len(list)-1]
	if len(list) > 0 && strings.HasPrefix(list[0], "grace") {
		n.Grace, _ = strconv.ParseInt(list[0][len("grace"):], 10, 64)
		n.HasGrace, list = true, list[1:]
	}
	if len(list) > 0 && strings.HasPrefix(list[0], "with") {
		n.More = list[0][len("with"):]
	}
	if !known || n.String() != s || !digits(n.Hash, hashDigits) || n.More != "" && !digits(n.More, moreDigits) || n.Grace < 0 {
		return Name{}, lifecycle.ErrBadRequest("plan: %q is not the name of a plan, such as foreground-0123456789abcdef@17: "+
			"its options, %d hexadecimal digits, and perhaps @ and a revision; copy it from the plan, or plan again", s, hashDigits)
	}
	return n, nil
}

// digits reports whether s has n hexadecimal digits and nothing else.
func digits(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// Check parses the name of a plan. It returns an error unless the parts of a deletion have the
// options that were planned.
func Check(plan string, parts ...*coppicev1.DeleteRequest) (Name, *lifecycle.Error) {
	n, err := Parse(plan)
	if err != nil {
		return n, err
	}
	if d := n.differences(Of(parts...)); d != "" {
		return n, lifecycle.ErrBadRequest("plan: the request is not what %s plans: %s; nothing was done: send the options that were planned, or plan again", n, d)
	}
	return n, nil
}

// differences names the options of a request that are not those of the plan.
func (n Name) differences(is Options) string {
	var said []string
	if is.Policy != n.Policy {
		said = append(said, fmt.Sprintf("propagationPolicy is %s, and %s was planned", policyText(is.Policy), policyText(n.Policy)))
	}
	if is.HasGrace != n.HasGrace || is.Grace != n.Grace {
		said = append(said, fmt.Sprintf("gracePeriodSeconds is %s, and %s was planned", is.graceText(), n.graceText()))
	}
	if is.More != n.More {
		said = append(said, "preconditions, the version, or options of parts are not those that were planned")
	}
	return strings.Join(said, "; ")
}

func policyText(policy string) string {
	switch policy {
	case "":
		return "not given"
	case Mixed:
		return "different in parts"
	case Unprotect:
		return "the removal of protections"
	}
	return policy
}

func (o Options) graceText() string {
	if !o.HasGrace {
		return "not given"
	}
	return strconv.FormatInt(o.Grace, 10)
}

// Mark is how an object is marked for deletion. The zero Mark is none.
type Mark struct {
	Policy string // that is in effect, from whichever source
	Grace  int64  // in seconds, if the object was not being deleted before
}

// MarkOf returns how an object was marked for deletion.
func MarkOf(before, after *lifecycle.Node) Mark {
	m := Mark{Policy: lifecycle.Background}
	switch {
	case after.HasFinalizer(lifecycle.FinalizerOrphan):
		m.Policy = lifecycle.Orphan
	case after.HasFinalizer(lifecycle.FinalizerForeground):
		m.Policy = lifecycle.Foreground
	}
	if !before.Terminating() && after.GracePeriod != nil {
		m.Grace = *after.GracePeriod
	}
	return m
}
