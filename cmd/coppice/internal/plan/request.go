package plan

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Request is what a plan is of: deletions of objects by name, all in one commit. Each part has the
// objects of one kind in one namespace with one policy.
type Request struct {
	Parts []client.Deletion
	kinds []client.Kind // of the parts

	named map[namedObject]int // the index of the part that has the object
}

// Object is an object that a request names.
type Object struct {
	Kind            client.Kind
	Namespace, Name string
}

type namedObject struct {
	resource        client.Resource
	namespace, name string
}

// TwiceError refuses an object that a request has already with another policy.
type TwiceError struct {
	Key string // such as "pods/web-1"
}

func (e *TwiceError) Error() string {
	return e.Key + " is named twice, to be deleted in different ways; name it once"
}

// Add adds an object, unless the request has it already with the same policy. It returns a
// TwiceError if the request has it with another one, and refuses an object that is one too many
// for a request.
func (r *Request) Add(v Object, policy client.PropagationPolicy, grace *time.Duration) error {
	like := client.Deletion{Resource: client.ResourceOf(v.Kind), Propagation: policy, GracePeriod: grace}
	if v.Kind.Namespaced() {
		like.Namespace = v.Namespace
	}
	o := namedObject{like.Resource, like.Namespace, v.Name}
	if i, ok := r.named[o]; ok {
		if !alike(r.Parts[i], like) {
			return &TwiceError{printing.Key(v.Kind, v.Name)}
		}
		return nil
	}
	if len(r.named) == bus.MaxObjects {
		return &client.Error{Reason: client.ErrRequestEntityTooLarge, Message: bus.TooManyObjects}
	}
	at := -1
	for i, part := range r.Parts {
		if alike(part, like) {
			at = i
		}
	}
	if at < 0 {
		if at = len(r.Parts); at > bus.MaxDeleteParts {
			return &client.Error{Reason: client.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
				"a plan has at most %d kinds and namespaces of objects: name or select objects of fewer at once", bus.MaxDeleteParts+1)}
		}
		r.Parts, r.kinds = append(r.Parts, like), append(r.kinds, v.Kind)
	}
	r.Parts[at].Names = append(r.Parts[at].Names, v.Name)
	if r.named == nil {
		r.named = map[namedObject]int{}
	}
	r.named[o] = at
	return nil
}

// alike reports whether two deletions are of the same kind and namespace, with the same policy.
func alike(a, b client.Deletion) bool {
	return a.Resource == b.Resource && a.Namespace == b.Namespace && a.Propagation == b.Propagation && sameGrace(a, b)
}

func sameGrace(a, b client.Deletion) bool {
	if a.GracePeriod == nil || b.GracePeriod == nil {
		return a.GracePeriod == b.GracePeriod
	}
	return *a.GracePeriod == *b.GracePeriod
}

// Objects returns the objects in the order of the parts, which is that of the results.
func (r *Request) Objects() (list []Object) {
	for i, part := range r.Parts {
		for _, name := range part.Names {
			list = append(list, Object{Kind: r.kinds[i], Namespace: part.Namespace, Name: name})
		}
	}
	return list
}

// Command returns the command line that carries out the plan, empty if only a plan file can.
// It names the namespace unless that is the default one of the command line. The name of the plan says
// the policy and the grace period.
func (r *Request) Command(plan, defaultNamespace string) string {
	first, namespace := r.Parts[0], ""
	said := "coppice delete"
	for i, part := range r.Parts {
		if part.Propagation != first.Propagation || !sameGrace(part, first) || part.Namespace != "" && namespace != "" && part.Namespace != namespace {
			return ""
		}
		if part.Namespace != "" {
			namespace = part.Namespace
		}
		for _, name := range part.Names {
			said += " " + shellWord(printing.Key(r.kinds[i], name))
		}
	}
	if namespace != "" && namespace != defaultNamespace {
		said += " -n " + shellWord(namespace)
	}
	return said + " --plan=" + plan
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/:@=,+-]+$`)

// shellWord is a word as a shell reads it: a name can be almost anything.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Removed returns the uids of the objects that a plan says will be removed.
func Removed(p *client.Plan) map[string]bool {
	goes := map[string]bool{}
	for _, o := range p.GetObjects() {
		if o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED || o.GetOutcome() == coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER {
			goes[o.GetUid()] = true
		}
	}
	return goes
}
