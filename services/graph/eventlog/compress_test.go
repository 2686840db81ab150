package eventlog_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// What the stream holds is smaller than what was appended and is read.
func TestLogCompresses(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	builder := eventlog.NewBuilder(eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{2}, Epoch: 1, Time: 1, FirstRevision: 1, Sequence: 1, Key: 1})
	for range 1000 {
		builder.Begin(eventlog.Command{Actor: "ana", Verb: "test", Note: strings.Repeat("again ", 20)})
		builder.End(eventlog.CommandRef{}, nil)
	}
	commit := builder.Bytes()
	if _, err := b.log.Append(b.Ctx, 0, [16]byte{2}, commit); err != nil {
		t.Fatal(err)
	}
	got, err := b.other.Get(b.Ctx, 1)
	if err != nil || !bytes.Equal(got, commit) {
		t.Errorf("read %d bytes of %d, %v", len(got), len(commit), err)
	}
	end := errors.New("seen")
	err = b.other.Follow(b.Ctx, 1, func(m eventlog.Message) error {
		room := []byte("used before")
		if got, err := m.Open(&room); err != nil || !bytes.Equal(got, commit) {
			t.Errorf("followed to %d bytes of %d, %v", len(got), len(commit), err)
		}
		if m.Size() != len(commit) {
			t.Errorf("it is said to have %d bytes, not %d", m.Size(), len(commit))
		}
		return end
	})
	if !errors.Is(err, end) {
		t.Error(err)
	}
	if stored := b.stored(); stored > uint64(len(commit)/3) {
		t.Errorf("the stream has %d bytes of a commit of %d", stored, len(commit))
	}
}

// A message that cannot be opened is a broken log.
func TestLogWithBrokenMessage(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.store(slices.Concat([]byte{11<<3 | 2, 1, 0xff, 13<<3 | 1}, make([]byte, 8), []byte{15<<3 | 2, 16}, make([]byte, 16))) // what is said to be compressed is no block
	if _, err := b.log.Get(b.Ctx, 1); !errors.Is(err, eventlog.ErrForeign) {
		t.Errorf("get: %v", err)
	}
	if err := b.log.Follow(b.Ctx, 1, func(m eventlog.Message) error {
		var room []byte
		_, err := m.Open(&room)
		return err
	}); !errors.Is(err, envelope.ErrMalformed) {
		t.Errorf("follow: %v", err)
	}
}
