package client

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// RealmEvents returns what a commit records about the realm itself, in order. These events have
// no revision. Their types are:
//
//   - LossAccepted: the log has lost commits, and an operator has accepted that. Note says which, and
//     Detail also where the revisions continue. Actor is the graph service: the log does not know
//     the operator.
//   - RealmContinued: the first commit of a realm that was restored or replayed. Detail names the
//     log that it continues.
//   - RealmResumed: the pause of such a realm has ended.
//   - KeyChanged: later commits are authenticated with another key.
func RealmEvents(c *Commit) []LogEvent {
	var out []LogEvent
	add := func(command int, typ, detail string) {
		e := LogEvent{Time: time.UnixMicro(c.GetTime()).UTC(), Type: typ, Detail: detail}
		if command >= 0 && command < len(c.GetCommands()) {
			by := c.GetCommands()[command]
			e.Actor, e.Verb, e.Note = by.GetActor(), by.GetVerb(), by.GetNote()
			if id, err := uuid.FromBytes(by.GetId()); err == nil {
				e.Command = id.String()
			}
		}
		out = append(out, e)
	}
	begins := false // the first commit of a realm announces its first key
	for i, command := range c.GetCommands() {
		switch command.GetVerb() {
		case bus.VerbAcceptLoss:
			add(i, "LossAccepted", fmt.Sprintf("%s; revisions continue at %d", command.GetNote(), c.GetFirstRevision()))
		case bus.VerbOrigin, bus.VerbGenesis:
			begins = true
		}
	}
	for _, e := range c.GetEvents() {
		v, ok := e.GetEvent().(*coppicev1.Event_Realm)
		if !ok {
			continue
		}
		if origin := v.Realm.GetOrigin(); origin != nil {
			add(int(e.GetCommand()), "RealmContinued", fmt.Sprintf("realm id %x up to commit %d", origin.GetRealmId(), origin.GetSequence()))
		} else if !v.Realm.GetPaused() {
			add(int(e.GetCommand()), "RealmResumed", "")
		}
	}
	if k := c.GetNewKey(); k != nil && !begins {
		add(len(c.GetCommands())-1, "KeyChanged", fmt.Sprintf("key %d, fingerprint %x", k.GetNumber(), k.GetFingerprint()))
	}
	return out
}
