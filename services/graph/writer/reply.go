package writer

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// readPart adds the reply to a command of a commit to reply: the stored reply or, if there
// is none, the one that follows from the command's events.
func readPart(c *eventlog.Decoded, command int, work Work, reply proto.Message) error {
	stored, err := c.Reply(command)
	if err != nil {
		return err
	}
	if stored != nil {
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(stored, reply)
	}
	on, ok := work.(ObjectsWork)
	if !ok {
		return fmt.Errorf("no reply was kept with the command")
	}
	objects := reply.(*coppicev1.ObjectsReply)
	return c.Each(func(e *eventlog.Entry) error {
		if e.Command != command {
			return nil
		}
		o := lifecycle.Object{Node: e.After(nil, e.Revision), Body: &coppicev1.Body{}}
		if err := proto.Unmarshal(e.Body, o.Body); err != nil {
			return err
		}
		r := &coppicev1.Result{Code: CodeOf(e.Type)}
		if on.Brief() {
			r.Object = o.Brief()
		} else {
			r.Object = o.API()
		}
		objects.Results = append(objects.Results, r)
		objects.Revision = e.Revision
		return nil
	})
}

// CommandsOf returns the commands of a commit that have an id, in the form in which the
// state stores them.
func CommandsOf(refs []eventlog.CommandRef) []state.Command {
	list := make([]state.Command, 0, len(refs))
	for i := range refs {
		if id := state.CommandID(refs[i].ID); id != (state.CommandID{}) {
			list = append(list, state.Command{CommandKey: state.CommandKey{Actor: refs[i].Actor, ID: id}, Unfinished: refs[i].Unfinished})
		}
	}
	return list
}

// CodeOf returns the code of the result that follows from an event.
func CodeOf(t lifecycle.EventType) uint32 {
	if t == lifecycle.ObjectCreated {
		return 201
	}
	return 200
}

// replyToStore returns the encoding of the reply, or of a part of it, to store for repetitions of
// the command; nil if the reply follows from the events.
func replyToStore(d *OpenCommit, r *Request, reply proto.Message) []byte {
	if r.Work.ReplyInLog() {
		return nil
	}
	enc, err := proto.Marshal(reply)
	if err != nil {
		d.fail(err)
	}
	return enc
}
