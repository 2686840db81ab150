// Package resolution reads and writes what a replica reports about objects that
// are to be evaluated: the columns of coppice.v1.ResolveReply.
package resolution

import (
	"encoding/binary"
	"errors"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Append appends an object to the reply. One that is not there has no traits.
func Append(r *coppicev1.ResolveReply, u uid.UID, t lifecycle.Traits, classes []lifecycle.Class) {
	r.Uids = append(r.Uids, u...)
	r.Traits = append(r.Traits, byte(t))
	r.Traits = binary.AppendUvarint(r.Traits, uint64(len(classes)))
	for _, c := range classes {
		r.Traits = append(r.Traits, byte(c))
	}
}

// ErrMalformed is returned for columns that do not belong together.
var ErrMalformed = errors.New("malformed resolution")

// Each calls visit for the objects of a reply, in order. The classes are valid
// during the call.
func Each(r *coppicev1.ResolveReply, visit func(u uid.UID, t lifecycle.Traits, classes []lifecycle.Class)) error {
	uids := string(r.GetUids())
	traits := r.GetTraits()
	var classes []lifecycle.Class
	for uids != "" {
		u, rest, err := uid.Cut(uids)
		if err != nil || len(traits) == 0 {
			return ErrMalformed
		}
		uids = rest
		t := lifecycle.Traits(traits[0])
		n, size := binary.Uvarint(traits[1:])
		if size <= 0 || n > uint64(len(traits)-1-size) {
			return ErrMalformed
		}
		traits = traits[1+size:]
		classes = classes[:0]
		for _, c := range traits[:n] {
			classes = append(classes, lifecycle.Class(c))
		}
		traits = traits[n:]
		visit(u, t, classes)
	}
	if len(traits) > 0 {
		return ErrMalformed
	}
	return nil
}
