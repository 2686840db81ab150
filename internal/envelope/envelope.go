// Package envelope makes commits into messages of the log's stream, and back.
// Both are encodings of coppice.v1.Commit, the message perhaps a compressed one.
package envelope

import (
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
	firstRevision = 6 // the last of the header
	compressed    = 11
)

// ErrMalformed is returned for a message that stands for no commit.
var ErrMalformed = errors.New("malformed message of the log")

// scratch holds blocks until they are a part of a message.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// Seal returns the message that stands for a commit in the stream: the commit
// itself or, where that saves an eighth, its header and a Snappy block of the
// rest. It is safe for concurrent use.
//
// What compresses is what objects that are made together share: bodies, labels,
// references. It counts wherever bytes do: they are sent, synced, and all read
// again by a server that was killed.
func Seal(commit []byte) (message []byte) {
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
	return wire.AppendBytes(slices.Clip(commit[:header]), compressed, block)
}

// Open returns the commit for which a message of the stream stands, which may
// share the message's memory. It fails with ErrMalformed for a block that is not
// one, or is not the end of the message.
func Open(message []byte) (commit []byte, err error) {
	var room []byte
	return OpenInto(&room, message)
}

// OpenInto is Open with room for what is decompressed, which grows if it is not
// enough, and which the commit may share.
func OpenInto(room *[]byte, message []byte) (commit []byte, err error) {
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
	return len(message)
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
		if n < 0 || number > firstRevision {
			break
		}
		end += n
	}
	return end
}
