// Package envelope converts commits to messages of the log's stream, and back. Both are
// encodings of coppice.v1.Commit. Large messages are compressed, and each message ends
// with its position and an authentication code.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/wire"
)

// Bounds of compression.
const (
	// leastCompressed is the size in bytes from which on a commit is compressed.
	// Smaller commits have little that repeats.
	leastCompressed = 4 << 10
	// maxRatio is an upper bound of the compression ratio. A Snappy block encodes at
	// most 64 bytes in three.
	maxRatio = 22
)

// Field numbers of coppice.v1.Commit.
const (
	firstRevision = 6 // like the lower numbers, in the header
	compressed    = 11
	sequence      = 12 // in the header
	position      = 13 // like mac, behind the commit
	key           = 14 // in the header
	mac           = 15
	format        = 17 // in the header
)

// MACSize is the size of the authentication code of a message, in bytes.
const MACSize = 16

// Every message ends with two fields of these sizes, in bytes: its position, and its
// authentication code.
const (
	positionSize = 1 + 8
	macSize      = 2 + MACSize
	trailer      = positionSize + macSize
)

// The first bytes of the two fields: their tags, and the length of the second.
const (
	positionStart = string(rune(position<<3 | protowire.Fixed64Type))
	macStart      = string(rune(mac<<3|protowire.BytesType)) + string(rune(MACSize))
)

// ErrMalformed is returned for a message that contains no commit.
var ErrMalformed = errors.New("malformed message of the log")

// overhead is an upper bound of the size of a block's tag and length, in bytes.
const overhead = 16

// scratch has buffers for blocks that are copied into a message.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// Authenticate returns the authentication code of a message without its last field.
type Authenticate func(message []byte) [MACSize]byte

// Seal returns the message for a commit at a position of the stream: the commit, the
// position and the authentication code. If it saves at least an eighth of the size, what
// follows the commit's header is a Snappy block. The message may share the memory of the
// commit, also the capacity behind its end. Seal is safe for concurrent use.
//
// Commits compress well because objects that are created together have similar bodies,
// labels and references. A smaller message is sent and synced faster, and read faster by
// a NATS server that restarts.
func Seal(commit []byte, position uint64, authenticate Authenticate) (message []byte) {
	message = compress(commit)
	message = append(message, make([]byte, trailer)...)
	Move(message, position, authenticate)
	return message
}

// Move sets another position in a message that Seal has returned.
func Move(message []byte, position uint64, authenticate Authenticate) {
	at := len(message) - trailer
	copy(message[at:], positionStart)
	binary.LittleEndian.PutUint64(message[at+1:], position)
	at += positionSize
	copy(message[at:], macStart)
	code := authenticate(message[:at])
	copy(message[at+2:], code[:])
}

// Trailer is the end of a message, behind the commit.
type Trailer struct {
	Position      uint64
	Authenticated []byte // what Code authenticates
	Code          []byte
}

// Split returns the commit of a message, which may be compressed, and the trailer. It
// returns ErrMalformed if the message has no position or no authentication code.
func Split(message []byte) (commit []byte, t Trailer, err error) {
	at := len(message) - trailer
	if at < 0 || string(message[at:at+1]) != positionStart || string(message[at+positionSize:at+positionSize+2]) != macStart {
		return nil, t, fmt.Errorf("%w: it does not end with a position and an authentication code", ErrMalformed)
	}
	t.Position = binary.LittleEndian.Uint64(message[at+1:])
	t.Authenticated, t.Code = message[:at+positionSize], message[at+positionSize+2:]
	return message[:at:at], t, nil
}

// compress returns the commit, or its header and a Snappy block of the rest.
func compress(commit []byte) []byte {
	header := headerEnd(commit)
	if len(commit) < leastCompressed || header == 0 {
		return commit
	}
	rest := commit[header:]
	room := scratch.Get().(*[]byte)
	defer scratch.Put(room)
	*room = slices.Grow((*room)[:0], s2.MaxEncodedLen(len(rest)))
	block := s2.EncodeSnappy((*room)[:cap(*room)], rest)
	if len(block) > len(rest)-len(rest)/8 {
		return commit
	}
	message := append(make([]byte, 0, header+len(block)+overhead+trailer), commit[:header]...)
	return wire.AppendBytes(message, compressed, block)
}

// Open returns the commit in a message of the stream. The commit may share the message's
// memory. Open returns ErrMalformed if a block is corrupt or is not the last part of the
// commit, or if the message has no authentication code. It does not check that code: only
// the owner of the key can.
func Open(message []byte) (commit []byte, err error) {
	var room []byte
	return OpenInto(&room, message)
}

// OpenInto is Open, and decompresses into *room, which grows if necessary. The commit may
// share its memory.
func OpenInto(room *[]byte, message []byte) (commit []byte, err error) {
	message, _, err = Split(message)
	if err != nil {
		return nil, err
	}
	header := headerEnd(message)
	block, after, ok := compressedAt(message[header:])
	if !ok {
		return message, nil
	}
	if len(after) > 0 {
		return nil, fmt.Errorf("%w: something follows what is compressed", ErrMalformed)
	}
	n, err := s2.DecodedLen(block)
	if err == nil && n > maxRatio*len(block) {
		err = errors.New("the block claims a larger content than any block can have")
	}
	if err == nil {
		if cap(*room) < header+n {
			*room = make([]byte, header+n)
		}
		commit = (*room)[:header+n]
		copy(commit, message[:header])
		_, err = s2.Decode(commit[header:], block)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if _, _, ok := compressedAt(commit[headerEnd(commit):]); ok {
		return nil, fmt.Errorf("%w: compressed twice", ErrMalformed)
	}
	return commit, nil
}

// Size returns the size in bytes of the commit in a message, by what the message claims:
// it does not open it.
func Size(message []byte) int {
	header := headerEnd(message)
	if block, _, ok := compressedAt(message[header:]); ok {
		if n, err := s2.DecodedLen(block); err == nil {
			return header + n
		}
	}
	return max(len(message)-trailer, 0)
}

// compressedAt returns the block that b begins with and the bytes behind it. ok is false
// if b does not begin with a block.
func compressedAt(b []byte) (block, after []byte, ok bool) {
	number, typ, n := protowire.ConsumeTag(b)
	if n < 0 || number != compressed || typ != protowire.BytesType {
		return nil, nil, false
	}
	block, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return nil, nil, false
	}
	return block, b[n+m:], true
}

// headerEnd returns the offset of the end of a commit's header, 0 if b does not begin
// with one.
func headerEnd(b []byte) (end int) {
	for end < len(b) {
		number, _, n := protowire.ConsumeField(b[end:])
		if n < 0 || number > firstRevision && number != sequence && number != key && number != format {
			break
		}
		end += n
	}
	return end
}
