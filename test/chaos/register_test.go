package chaos_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
)

// ask is an operation on the object with a name. Each value is written at most once.
type ask struct {
	name, verb, value string
	// expected is the resourceVersion that an update requires; zero for any.
	expected uint64
}

// response is the reply: a refusal, or the object.
type response struct {
	refusal  client.Reason // empty if the operation was carried out
	value    string
	revision uint64
}

// register is the object with a name. Without a value the object does not exist.
type register struct {
	value    string
	revision uint64
}

// registers is the model of the objects. A history is correct if the model gives the same
// replies in some order of the operations in which no operation comes before one that had
// ended when it began (linearizability).
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		of := map[string]int{}
		for _, o := range history {
			name := o.Input.(ask).name
			i, ok := of[name]
			if !ok {
				i = len(parts)
				of[name] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(register).step(input.(ask), output.(response))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func (r register) step(q ask, a response) (bool, any) {
	there := r.value != ""
	switch a.refusal {
	case client.ErrNotFound:
		return !there && q.verb != bus.VerbCreate, r
	case client.ErrAlreadyExists:
		return there && q.verb == bus.VerbCreate, r
	case client.ErrConflict:
		return there && q.verb == bus.VerbUpdate && q.expected != 0 && q.expected != r.revision, r
	case "":
	default:
		return false, r
	}
	switch q.verb {
	case bus.VerbCreate:
		return !there && a.revision > r.revision, register{q.value, a.revision}
	case bus.VerbUpdate:
		return there && (q.expected == 0 || q.expected == r.revision) && a.revision > r.revision, register{q.value, a.revision}
	case bus.VerbDelete:
		return there, register{"", a.revision}
	}
	return there && a.value == r.value && a.revision == r.revision, r
}
