// Package envelope makes commits into messages of the log's stream, and back.
// Both are encodings of coppice.v1.Commit, the message perhaps a compressed one.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/wire"
)

// Bounds of what is compressed.
const (
	// leastCompressed is the size from which on a commit is compressed, in
	// bytes: smaller ones have little that repeats.
	leastCompressed = 4 << 10
	// maxRatio is more than how many bytes a byte of a block stands for: three
	// stand for 64 at the most.
	maxRatio = 22
)

// Field numbers of coppice.v1.Commit.
const (
	firstRevision = 6 // with those below it, of the header
	compressed    = 11
	sequence      = 12 // of the header
	position      = 13 // with mac, behind the commit
	key           = 14 // of the header
	mac           = 15
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

// What the two fields begin with: their tags, and the length of the second.
const (
	positionStart = string(rune(position<<3 | protowire.Fixed64Type))
	macStart      = string(rune(mac<<3|protowire.BytesType)) + string(rune(MACSize))
)

// ErrMalformed is returned for a message that stands for no commit.
var ErrMalformed = errors.New("malformed message of the log")

// overhead is more than what precedes a block.
const overhead = 16

// scratch holds blocks until they are a part of a message.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// Authenticate returns the authentication code of a message without its last field.
type Authenticate func(message []byte) [MACSize]byte

// Seal returns the message that stands for a commit at a position of the stream: the
// commit itself or, where that saves an eighth, its header and a Snappy block of the
// rest; and then its position and its authentication code. The message may share the
// memory of the commit, also behind its end. It is safe for concurrent use.
//
// What compresses is what objects that are made together share: bodies, labels,
// references. It counts wherever bytes do: they are sent, synced, and all read
// again by a server that was killed.
func Seal(commit []byte, position uint64, authenticate Authenticate) (message []byte) {
	message = compress(commit)
	message = append(message, make([]byte, trailer)...)
	Move(message, position, authenticate)
	return message
}

// Move changes a message that Seal has returned to stand at another position.
func Move(message []byte, position uint64, authenticate Authenticate) {
	at := len(message) - trailer
	copy(message[at:], positionStart)
	binary.LittleEndian.PutUint64(message[at+1:], position)
	at += positionSize
	copy(message[at:], macStart)
	code := authenticate(message[:at])
	copy(message[at+2:], code[:])
}

// Trailer is how a message ends.
type Trailer struct {
	Position      uint64
	Authenticated []byte // what Code authenticates
	Code          []byte
}

// Split returns the commit of a message, which may be compressed, and how it ends. It
// fails with ErrMalformed for a message that has no position or no code.
func Split(message []byte) (commit []byte, t Trailer, err error) {
	at := len(message) - trailer
	if at < 0 || string(message[at:at+1]) != positionStart || string(message[at+positionSize:at+positionSize+2]) != macStart {
		return nil, t, fmt.Errorf("%w: it does not end with a position and an authentication code", ErrMalformed)
	}
	t.Position = binary.LittleEndian.Uint64(message[at+1:])
	t.Authenticated, t.Code = message[:at+positionSize], message[at+positionSize+2:]
	return message[:at:at], t, nil
}

// compress returns the commit, or its header and a block of the rest.
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

// Open returns the commit for which a message of the stream stands, which may
// share the message's memory. It fails with ErrMalformed for a block that is not
// one, or is not the end of the message, and for a message without an
// authentication code. It does not check that code, which takes the key.
func Open(message []byte) (commit []byte, err error) {
	var room []byte
	return OpenInto(&room, message)
}

// OpenInto is Open with room for what is decompressed, which grows if it is not
// enough, and which the commit may share.
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
		err = errors.New("no block holds as much as this one says")
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

// Size is how many bytes the commit has for which a message stands, as far as
// that says without being opened.
func Size(message []byte) int {
	header := headerEnd(message)
	if block, _, ok := compressedAt(message[header:]); ok {
		if n, err := s2.DecodedLen(block); err == nil {
			return header + n
		}
	}
	return max(len(message)-trailer, 0)
}

// compressedAt is the block that b begins with, if it does, and what follows it.
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

// headerEnd is where the header of a commit ends, 0 for what does not begin with one.
func headerEnd(b []byte) (end int) {
	for end < len(b) {
		number, _, n := protowire.ConsumeField(b[end:])
		if n < 0 || number > firstRevision && number != sequence && number != key {
			break
		}
		end += n
	}
	return end
}
