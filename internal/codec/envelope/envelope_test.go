package envelope_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// compressed is the number of the field that holds the block.
const compressed = 11

// creations is a commit that creates n objects, with a spec that is drawn for
// each unless they share one.
func creations(n int, shared []byte) []byte {
	c := &coppicev1.Commit{RealmId: make([]byte, 16), Id: make([]byte, 16), PreviousChecksum: 3, Epoch: 4, Time: 5, FirstRevision: 6}
	for range n {
		spec := shared
		if spec == nil {
			spec = random(2000)
		}
		c.Events = append(c.Events, &coppicev1.Event{Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{
			Node: &coppicev1.Node{Uid: random(16), Name: "pod"}, Body: &coppicev1.Body{Spec: spec},
		}}})
	}
	// The header comes first, as the numbers of its fields say.
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		panic(err)
	}
	return b
}

// code is the authentication code of all messages.
var code = [envelope.MACSize]byte{1, 2, 3}

// seal seals a commit, whose memory the message does not share.
func seal(commit []byte) []byte {
	return envelope.Seal(bytes.Clone(commit), 7, func([]byte) [envelope.MACSize]byte { return code })
}

// sealed is a message that ends as it should.
func sealed(b []byte) []byte {
	b = protowire.AppendFixed64(protowire.AppendTag(b, position, protowire.Fixed64Type), 7)
	return protowire.AppendBytes(protowire.AppendTag(b, mac, protowire.BytesType), code[:])
}

// The numbers of the last fields.
const (
	position = 13
	mac      = 15
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// A reader in another language has generated code and a library for Snappy.
func TestSnappy(t *testing.T) {
	t.Parallel()
	commit := creations(100, bytes.Repeat([]byte("spec"), 50))
	message := seal(commit)
	if len(message) > len(commit)/3 {
		t.Errorf("%d bytes became %d", len(commit), len(message))
	}
	if got, err := envelope.Open(message); err != nil || !bytes.Equal(got, commit) {
		t.Errorf("%d bytes came back as %d, %v", len(commit), len(got), err)
	}
	var got, want coppicev1.Commit
	must.Succeed(t, proto.Unmarshal(message, &got))
	if got.GetPosition() != 7 || !bytes.Equal(got.GetMac(), code[:]) {
		t.Errorf("position %d, code %x", got.GetPosition(), got.GetMac())
	}
	rest, err := snappy.Decode(nil, got.GetCompressed())
	must.Succeed(t, err)
	got.Compressed, got.Position, got.Mac = nil, 0, nil
	must.Succeed(t, (proto.UnmarshalOptions{Merge: true}).Unmarshal(rest, &got))
	must.Succeed(t, proto.Unmarshal(commit, &want))
	if !proto.Equal(&got, &want) {
		t.Error("what the block holds is not the rest of the commit")
	}
}

// A commit with any amount of repetition can be sealed and opened again.
func TestNothingButRepetition(t *testing.T) {
	t.Parallel()
	for _, size := range []int{5_000, 70_000, 8 << 20} {
		commit := creations(1, make([]byte, size))
		if got, err := envelope.Open(seal(commit)); err != nil || !bytes.Equal(got, commit) {
			t.Errorf("%d bytes came back as %d, %v", len(commit), len(got), err)
		}
	}
}

// A commit that is small, or does not compress, is not compressed.
func TestNotWorthCompressing(t *testing.T) {
	t.Parallel()
	for name, commit := range map[string][]byte{
		"small":       creations(3, make([]byte, 200)),
		"random":      creations(200, nil),
		"no commit":   make([]byte, 100_000),
		"not a field": bytes.Repeat([]byte{0xff}, 100_000),
		"empty":       nil,
	} {
		message := seal(commit)
		if same, end, err := envelope.Split(message); !bytes.Equal(same, commit) || !bytes.Equal(end.Code, code[:]) || end.Position != 7 || err != nil {
			t.Errorf("%s: was changed, or ends with %v: %v", name, end, err)
		}
		if got, err := envelope.Open(message); err != nil || !bytes.Equal(got, commit) {
			t.Errorf("%s: opened to %d bytes, %v", name, len(got), err)
		}
	}
}

// A block that is broken, or claims to be larger than any commit, is refused before
// memory is allocated for it.
func TestBrokenBlocks(t *testing.T) {
	t.Parallel()
	message := func(block []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag([]byte{}, compressed, protowire.BytesType), block)
	}
	good := s2.EncodeSnappy(nil, make([]byte, 10_000))
	for name, m := range map[string][]byte{
		"twice":     message(s2.EncodeSnappy(nil, message(good))),
		"cut off":   message(good[:len(good)/2]),
		"too large": message(protowire.AppendVarint(nil, 1<<40)),
		"empty":     message(nil),
		"not last":  append(message(good), message(good)...),
	} {
		if _, err := envelope.Open(sealed(m)); !errors.Is(err, envelope.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A message without an authentication code is refused.
func TestNoCode(t *testing.T) {
	t.Parallel()
	commit := creations(2, []byte("spec"))
	message := seal(commit)
	for length := range message {
		if _, err := envelope.Open(message[:length]); !errors.Is(err, envelope.ErrMalformed) {
			t.Errorf("the first %d bytes of %d: %v", length, len(message), err)
		}
	}
}

// Any commit that Open accepts can be sealed and opened again.
func FuzzOpen(f *testing.F) {
	f.Add(seal(creations(2, []byte("spec"))))
	f.Add(seal(creations(100, make([]byte, 200))))
	f.Fuzz(func(t *testing.T, message []byte) {
		commit, err := envelope.Open(message)
		if err != nil {
			return
		}
		if got, err := envelope.Open(seal(commit)); err != nil || !bytes.Equal(got, commit) {
			t.Errorf("%d bytes came back as %d, %v", len(commit), len(got), err)
		}
	})
}
