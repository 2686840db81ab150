package chaos_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
)

// ask is what a client asks of the object with a name. Each value is written
// once.
type ask struct {
	name, verb, value string
	// expected is the resourceVersion that an update is based on; zero for
	// whatever is there.
	expected uint64
}

// told is the reply: a refusal, or the object.
type told struct {
	refusal  client.Reason // empty if it was done
	value    string
	revision uint64
}

// register is what there is under a name: nothing, if it has no value.
type register struct {
	value    string
	revision uint64
}

// registers is the model of objects that each history of asks and answers must
// agree with, in some order in which nothing comes before what had ended when
// it began.
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
		return state.(register).step(input.(ask), output.(told))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func (r register) step(q ask, a told) (bool, any) {
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
