package natsstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
)

// readChunks is how many chunks are read by one request: 2 MiB.
const readChunks = 16

// Open implements archive.Store. The digest of the object is not checked: readers check the
// checksums that entries have in every store.
func (s *Store) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	info, _, err := s.last(ctx, name)
	if err == nil && (info == nil || info.Deleted) {
		err = archive.ErrNotFound
	}
	if err == nil {
		err = archive.CheckRange(int64(info.Size), offset, length)
	}
	if err != nil {
		return nil, s.wrap("read", name, err)
	}
	if r := s.direct(ctx, info, offset, length); r != nil {
		return r, nil
	}
	return &scan{ctx: ctx, store: s, name: name, subject: s.chunks(info.NUID), next: 1, skip: offset, left: length}, nil
}

// scan reads the chunks of an object whose sequences are not known, each by a request to the leader of the stream.
type scan struct {
	ctx        context.Context //nolint:containedctx // io.Reader has none
	store      *Store
	name       string
	subject    string
	next       uint64 // the sequence from which on the next chunk is
	skip, left int64  // bytes
	chunk      []byte // what is left of the current one
}

// Read implements io.Reader.
func (r *scan) Read(b []byte) (n int, err error) {
	for r.left > 0 && len(r.chunk) == 0 {
		m, err := bus.ReadFromLeader(r.ctx, r.store.js.Conn(), bus.LeaderRead{Stream: streamOf(r.store.bucket), Next: r.next, Subject: r.subject})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			err = r.store.missing(r.ctx, r.name, r.subject, fmt.Errorf("chunks from sequence %d of stream %s on are missing", r.next, streamOf(r.store.bucket)))
		}
		if err != nil {
			return 0, r.store.wrap("read", r.name, err)
		}
		skipped := min(r.skip, int64(len(m.Data)))
		r.next, r.skip, r.chunk = m.Sequence+1, r.skip-skipped, m.Data[skipped:]
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n = copy(b, r.chunk[:min(int64(len(r.chunk)), r.left)])
	r.chunk, r.left = r.chunk[n:], r.left-int64(n)
	return n, nil
}

// Close implements io.Closer.
func (r *scan) Close() error { return nil }

// direct returns a reader of the chunks by their sequences. It returns nil if they are not
// known or not right: another program has put the object, or the stream was copied with
// other sequences.
func (s *Store) direct(ctx context.Context, info *jetstream.ObjectInfo, offset, length int64) io.ReadCloser {
	text, here := strings.CutPrefix(info.Metadata[sequencesKey], s.created())
	sequences, ok := parseRuns(text)
	if !here || !ok || info.Opts == nil || info.Opts.ChunkSize != chunkSize {
		return nil
	}
	r := &reader{
		ctx: ctx, store: s, name: info.Name, subject: s.chunks(info.NUID), sequences: sequences,
		next: uint64(offset / chunkSize), left: length,
	}
	if err := r.fill(); err != nil || int64(len(r.chunk)) <= offset%chunkSize {
		return nil
	}
	r.chunk = r.chunk[offset%chunkSize:]
	return r
}

// reader reads chunks by direct get.
type reader struct {
	ctx       context.Context //nolint:containedctx // io.Reader has none
	store     *Store
	name      string
	subject   string
	sequences runs
	next      uint64   // the chunk after those in ahead
	chunk     []byte   // what is left of the current one
	ahead     [][]byte // the following ones
	left      int64    // bytes
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if len(r.chunk) == 0 {
		if err := r.fill(); err != nil {
			return 0, r.store.wrap("read", r.name, err)
		}
	}
	n = copy(b, r.chunk[:min(int64(len(r.chunk)), r.left)])
	r.chunk, r.left = r.chunk[n:], r.left-int64(n)
	return n, nil
}

// Close implements io.Closer.
func (r *reader) Close() error { return nil }

// fill moves to the next chunk, and reads more if there is none.
func (r *reader) fill() error {
	if len(r.ahead) == 0 {
		if err := r.read(); err != nil {
			return err
		}
	}
	r.chunk, r.ahead = r.ahead[0], r.ahead[1:]
	return nil
}

// errMissing ends a read before a chunk that the server lacks.
var errMissing = errors.New("a chunk is missing")

// read reads chunks with consecutive sequences, at least one.
func (r *reader) read() error {
	sequence, count := r.sequences.from(r.next)
	if count == 0 {
		return fmt.Errorf("chunk %d is not in the metadata", r.next)
	}
	want := min(count, readChunks, uint64(r.left)/chunkSize+2) // the first and the last may be partial
	first := sequence
	visit := func(m bus.DirectMessage) error {
		if m.Sequence != sequence {
			return errMissing
		}
		if m.Subject != r.subject || len(m.Data) == 0 {
			return fmt.Errorf("sequence %d of stream %s is not chunk %d of the object", m.Sequence, streamOf(r.store.bucket), r.next)
		}
		r.ahead = append(r.ahead, m.Data)
		sequence++
		r.next++
		return nil
	}
	_, err := bus.ReadDirect(r.ctx, r.store.js.Conn(), bus.DirectRead{Stream: streamOf(r.store.bucket), From: first, Batch: int(want)}, visit)
	if err != nil && !errors.Is(err, errMissing) {
		return err
	}
	if len(r.ahead) == 0 {
		// The server that has answered may lack what the leader of the stream has.
		m, err := bus.ReadFromLeader(r.ctx, r.store.js.Conn(), bus.LeaderRead{Stream: streamOf(r.store.bucket), Sequence: first})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			err = r.store.missing(r.ctx, r.name, r.subject, fmt.Errorf("sequence %d of stream %s is missing", first, streamOf(r.store.bucket)))
		}
		if err != nil {
			return err
		}
		return visit(m)
	}
	return nil
}

// missing returns the error for an object that lacks chunks, which have a subject: that it is damaged for a reason, or that
// it was deleted while it was read.
func (s *Store) missing(ctx context.Context, name, subject string, why error) error {
	m, err := bus.ReadFromLeader(ctx, s.js.Conn(), bus.LeaderRead{Stream: streamOf(s.bucket), Last: s.meta(name)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return archive.ErrNotFound
	}
	if err != nil {
		return err
	}
	switch info, err := metadata(m.Data); {
	case err != nil:
		return err
	case info.Deleted || s.chunks(info.NUID) != subject:
		return archive.ErrNotFound
	}
	return archive.Damaged(why)
}
