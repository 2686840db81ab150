// Package segmenttest makes logs and segments for tests.
package segmenttest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Realm is the id of the realm of all logs.
var Realm = [16]byte{0: 0xc0, 15: 0x99}

// Message is a message of a log.
type Message struct {
	Position uint64
	Data     []byte
}

// Log is a log in memory. It is determined by the calls of its methods.
type Log struct {
	Messages []Message
	Last     segment.Point
	epochs   uint64 // that Lose has begun
}

// New returns a log of n commits: the i-th has i%4 objects, and every fifth a gap before it
// in the stream.
func New(n int) *Log {
	l := &Log{}
	for i := range n {
		if i%5 == 4 {
			l.Last.Position++
		}
		l.Add(i%4, fmt.Sprintf(`{"image":"registry.example/web:%d","replicas":3}`, i))
	}
	return l
}

// Lose has the next commit begin an epoch and leave out revisions, as after a loss of
// commits.
func (l *Log) Lose(revisions uint64) {
	l.epochs++
	l.Last.Revision += revisions
}

// Add adds a commit of a number of objects with a spec: half are created, the others removed
// together.
func (l *Log) Add(objects int, spec string) {
	h := commitcodec.Header{
		RealmID: Realm, Previous: l.Last.Checksum, Epoch: 1 + l.epochs + l.Last.Sequence/10, Time: lifecycle.Time(1_700_000_000_000_000 + 1000*l.Last.Sequence),
		Sequence: l.Last.Sequence + 1, Key: 1, FirstRevision: l.Last.Revision + 1,
	}
	binary.BigEndian.PutUint64(h.ID[:], h.Sequence)
	c := &coppicev1.Commit{Commands: []*coppicev1.Command{{Actor: "ana", Verb: "create"}}}
	var removed []byte
	for i := range objects {
		u := uid.MustParse(fmt.Sprintf("%08x-0000-7000-8000-%012x", h.Sequence, i))
		if i%2 == 1 {
			removed = append(removed, u...)
			continue
		}
		c.Events = append(c.Events, &coppicev1.Event{Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{
			Node: &coppicev1.Node{Uid: []byte(u), Name: fmt.Sprintf("pod-%d", i)}, Body: &coppicev1.Body{Spec: []byte(spec)},
		}}})
	}
	if removed != nil {
		c.Events = append(c.Events, &coppicev1.Event{Event: &coppicev1.Event_Deleted{Deleted: &coppicev1.ObjectsDeleted{
			Objects: &coppicev1.Identities{Uids: removed},
		}}})
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		panic(err)
	}
	l.append(h, objects, append(Header(h), content...))
}

func (l *Log) append(h commitcodec.Header, objects int, commit []byte) {
	l.Last = segment.Point{
		Sequence: h.Sequence, Position: l.Last.Position + 1, Revision: l.Last.Revision + uint64(objects),
		Checksum: commitcodec.Checksum(commit), Time: h.Time,
	}
	l.Messages = append(l.Messages, Message{Position: l.Last.Position, Data: Seal(commit, l.Last.Position)})
}

// Header returns the encoding of a header, with which a commit begins.
func Header(h commitcodec.Header) []byte {
	b := wire.AppendBytes(nil, commitcodec.CommitRealmID, h.RealmID[:])
	b = wire.AppendBytes(b, commitcodec.CommitID, h.ID[:])
	b = wire.AppendFixed64(b, commitcodec.CommitPrevious, h.Previous)
	b = wire.AppendVarint(b, commitcodec.CommitEpoch, h.Epoch)
	b = wire.AppendVarint(b, commitcodec.CommitTime, uint64(h.Time))
	b = wire.AppendVarint(b, commitcodec.CommitSequence, h.Sequence)
	b = wire.AppendVarint(b, commitcodec.CommitKey, uint64(h.Key))
	return wire.AppendVarint(b, commitcodec.CommitFirstRevision, h.FirstRevision)
}

// Seal returns the message for a commit at a position, with an authentication code of no
// key.
func Seal(commit []byte, position uint64) []byte {
	return envelope.Seal(bytes.Clone(commit), position, func([]byte) [envelope.MACSize]byte { return [envelope.MACSize]byte{1, 2, 3} })
}

// Write returns a segment with messages. It flushes after every flush of them; 0 for never.
func Write(tb testing.TB, messages []Message, flush int) ([]byte, segment.Info) {
	tb.Helper()
	var b bytes.Buffer
	w, err := segment.NewWriter(&b)
	if err != nil {
		tb.Fatal(err)
	}
	for i, m := range messages {
		if err := w.Add(m.Position, m.Data); err != nil {
			tb.Fatal(err)
		}
		if flush > 0 && i%flush == flush-1 {
			if err := w.Flush(); err != nil {
				tb.Fatal(err)
			}
		}
	}
	info, err := w.Close()
	if err != nil {
		tb.Fatal(err)
	}
	return b.Bytes(), info
}
