package writer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// partsOf is a batch that takes several commits of 64 KiB. With refusals, each 16th
// object is there already.
func partsOf(refusals bool) *writer.Request {
	var objects []*coppicev1.Object
	for i := range 150 {
		o := configMap(fmt.Sprintf("n-%03d", i))
		if refusals && i%16 == 8 {
			o = configMap("n-000")
		}
		o.Spec = []byte(`"` + strings.Repeat("x", 2<<10) + `"`)
		objects = append(objects, o)
	}
	return withID(1, &writer.Request{Work: creation(objects...)})
}

func parted(c *writer.Config) { c.MaxPayload = 64 << 10 }

// logOnePart has a writer end, of which one part of a batch is in the log.
func (b *memWriter) logOnePart() {
	b.t.Helper()
	length := b.log.length()
	b.log.set(func(l *log) { l.room = length + 1 })
	b.submit(partsOf(false))
	if err := b.wait(); !errors.Is(err, eventlog.ErrFenced) {
		b.t.Fatalf("the writer ended with %v", err)
	}
	b.log.set(func(l *log) { l.room = 0 })
}

// sameParts checks the outcome of partsOf, over all of its parts.
func sameParts(t *testing.T, a answer, refusals bool) {
	t.Helper()
	results := a.objects(t)
	if len(results) != 150 {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results {
		want, name := uint32(201), fmt.Sprintf("n-%03d", i)
		if refusals && i%16 == 8 {
			want, name = 409, ""
		}
		if r.GetCode() != want || r.GetObject().GetMetadata().GetName() != name {
			t.Errorf("object %d: %v", i, r)
		}
	}
}

// S12: if a writer has appended only some parts of a batch, the next writer appends the rest
// when the batch is repeated, and its reply has the outcomes of the earlier parts. It was
// AlreadyExists for the batch's own objects.
func TestBatchGoesOnAfterFailOver(t *testing.T) {
	t.Parallel()
	for _, refusals := range []bool{false, true} {
		for parts := range 6 {
			t.Run(fmt.Sprintf("after %d parts, refusals %t", parts, refusals), func(t *testing.T) {
				t.Parallel()
				b := start(t, parted)
				length := b.log.length()
				b.log.set(func(l *log) { l.room = length + parts })
				lost := b.submit(partsOf(refusals))
				if err := b.wait(); !errors.Is(err, eventlog.ErrFenced) {
					t.Fatalf("the writer ended with %v", err)
				}
				if n := b.log.length(); n != length+parts {
					t.Fatalf("the log has %d parts", n-length)
				}
				// What is begun is not refused as if it had changed nothing.
				if a := testkit.Receive(t, b.ctx, "an answer", lost); parts > 0 && !errors.Is(a.err, api.ErrTimeout) ||
					parts == 0 && !errors.Is(a.err, api.ErrServiceUnavailable) && !errors.Is(a.err, api.ErrTimeout) {
					t.Errorf("the first attempt: %v", a.err)
				}
				b.log.set(func(l *log) { l.room = 0 })
				b.restartFailed(parted)
				one, two := b.submit(partsOf(refusals)), b.submit(partsOf(refusals))
				first := testkit.Receive(t, b.ctx, "the answer", one)
				sameParts(t, first, refusals)
				same(t, first, testkit.Receive(t, b.ctx, "the answer", two))
				b.restartWith(parted)
				length = b.log.length()
				same(t, first, b.do(partsOf(refusals)))
				if n := b.log.length(); n != length {
					t.Errorf("the repetition has grown the log from %d to %d", length, n)
				}
				b.log.check(t)
			})
		}
	}
}

// A batch survives a second fail-over like the first.
func TestBatchGoesOnAfterFailOvers(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	for range 3 {
		length := b.log.length()
		b.log.set(func(l *log) { l.room = length + 1 })
		b.submit(partsOf(true))
		if err := b.wait(); !errors.Is(err, eventlog.ErrFenced) {
			t.Fatalf("the writer ended with %v", err)
		}
		b.log.set(func(l *log) { l.room = 0 })
		b.restartFailed(parted)
	}
	first := b.do(partsOf(true))
	sameParts(t, first, true)
	same(t, first, b.do(partsOf(true)))
	b.log.check(t)
}

// An id of a batch that is not finished is not another command's.
func TestAnotherBatchDoesNotGoOn(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	b.logOnePart()
	b.restartFailed(parted)
	if a := b.do(withID(1, create("other"))); !errors.Is(a.err, api.ErrBadRequest) {
		t.Errorf("another command with the id: %v, %v", a.reply, a.err)
	}
	if b.there()["other"] {
		t.Error("another command was carried out")
	}
	sameParts(t, b.do(partsOf(false)), false)
}

// Without an id no parts are recorded, and the refusal is not retryable if some objects
// were changed.
func TestBatchWithoutID(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	length := b.log.length()
	b.log.set(func(l *log) { l.room = length + 1 })
	request := partsOf(false)
	request.ID = writer.Request{}.ID
	lost := b.submit(request)
	if err := b.wait(); !errors.Is(err, eventlog.ErrFenced) {
		t.Fatalf("the writer ended with %v", err)
	}
	none(t, "a batch of which a part is in the log", lost)
	for _, c := range b.log.check(t) {
		for _, k := range c.Commands {
			if k.Unfinished || k.PreviousPart != 0 {
				t.Errorf("the log has %+v", k)
			}
		}
	}
}

// Owners may come in any part of an import, and until then count as
// unknown. So each part says that the session is open, not only the last.
func TestImportOverCommitsIsOpenFromItsFirstPart(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	length := b.log.length()
	var objects []*coppicev1.Object
	for i := range 150 {
		o := configMap(fmt.Sprintf("n-%03d", i))
		o.Metadata.Uid = uuid.NewString()
		o.Spec = []byte(`"` + strings.Repeat("x", 2<<10) + `"`)
		objects = append(objects, o)
	}
	work := creation(objects...)
	work.Session, work.Close = "import-1", true
	work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Import(ctx, at, work.Session, proto.Clone(objects[i]).(*coppicev1.Object))
	}
	b.do(withID(1, &writer.Request{Work: work})).objects(t)
	commits := b.log.check(t)[length:]
	if len(commits) < 3 {
		t.Fatalf("the import took %d commits; the test wants several", len(commits))
	}
	for i, c := range commits {
		last := i == len(commits)-1
		if len(c.Sessions) != 1 || c.Sessions[0] != (eventlog.Session{ID: "import-1", Closed: last}) {
			t.Errorf("part %d of %d says of sessions %v", i+1, len(commits), c.Sessions)
		}
	}
}

// spanning is a command that takes two commits and is no Partial.
type spanning struct{ parts uint64 }

var _ writer.Work = (*spanning)(nil)

func (s *spanning) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	s.parts++
	d.Session(fmt.Sprintf("session-%d", s.parts), false)
	return s.parts == 2, nil
}

func (s *spanning) Reply(d *writer.OpenCommit) proto.Message {
	return &coppicev1.ReleaseBrakeReply{Released: s.parts, Revision: d.Revision()}
}

func (*spanning) ReplyInLog() bool { return false }

func (*spanning) NewReply() proto.Message { return &coppicev1.ReleaseBrakeReply{} }

// S12: a command whose last commit has the whole reply is answered with it when it is
// repeated, although its earlier commits do not have its id.
func TestSpanningCommandIsRepeated(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first := b.do(withID(1, &writer.Request{Work: &spanning{}}))
	same(t, first, b.do(withID(1, &writer.Request{Work: &spanning{}})))
	if n := first.reply.(*coppicev1.ReleaseBrakeReply).GetReleased(); n != 2 {
		t.Errorf("the command had %d parts", n)
	}
}
