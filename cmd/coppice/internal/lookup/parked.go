package lookup

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Chunk returns an empty message of the type that the queue with a subject has; nil for the subject of a call.
func Chunk(realm, subject string) proto.Message {
	switch subject {
	case bus.WorkSubject(realm, bus.QueueDirty):
		return &coppicev1.DirtyChunk{}
	case bus.WorkSubject(realm, bus.QueueOrphan):
		return &coppicev1.OrphanChunk{}
	case bus.WorkSubject(realm, bus.QueueFinish):
		return &coppicev1.FinishChunk{}
	case bus.WorkSubject(realm, bus.QueueDrain):
		return &coppicev1.DrainChunk{}
	}
	return nil
}

// ParkedWork is what parked work does.
type ParkedWork struct {
	// Says is the work in words.
	Says string
	// Resource, Namespace, Name and UID are those of the object of a call; empty if the work is about several objects, or if
	// the content of the work is not known or cannot be decoded.
	Resource, Namespace, Name, UID string
}

// WorkOf returns what parked work with its content does.
func WorkOf(realm string, p *coppicev1.Parked) ParkedWork {
	switch Chunk(realm, p.GetSubject()).(type) {
	case *coppicev1.DirtyChunk:
		return ParkedWork{Says: "the evaluation of objects whose owners have changed"}
	case *coppicev1.OrphanChunk:
		return ParkedWork{Says: "the removal of references to owners that orphan their dependents"}
	case *coppicev1.FinishChunk:
		return ParkedWork{Says: "the removal of a built-in finalizer"}
	case *coppicev1.DrainChunk:
		return ParkedWork{Says: "the deletion of objects in a namespace, or of a kind, that is being deleted"}
	}
	resource, uid, ok := bus.ObjectOfCall(p.GetSubject())
	if !ok {
		return ParkedWork{Says: "work with the subject " + p.GetSubject()}
	}
	of := ParkedWork{Says: "the call of the agent of " + resource, Resource: resource, UID: uid}
	if t := strings.SplitN(p.GetSubject(), ".", 7); len(t) == 7 {
		of.Says = "the call of finalizer " + t[6]
		if _, name, is := bus.ParseExpire(p.GetSubject()); is {
			of.Says = "the call of " + name + " about the notice of an expiry policy"
		}
	}
	var call struct {
		Object struct {
			Metadata struct{ Name, Namespace, UID string }
		}
	}
	if err := json.Unmarshal(p.GetMessage(), &call); err != nil || call.Object.Metadata.Name == "" {
		of.Resource, of.UID = "", ""
		return of
	}
	of.Namespace, of.Name = call.Object.Metadata.Namespace, call.Object.Metadata.Name
	return of
}
