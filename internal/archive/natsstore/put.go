package natsstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
)

const (
	// chunkSize is that of nats.go: every server accepts messages of this size.
	chunkSize = 128 << 10
	// window is how many chunks are published before their acknowledgements are awaited.
	window = 64
	// attempts is how often the metadata are published until they are acknowledged.
	attempts = 4
	pause    = 250 * time.Millisecond // between two attempts
	// chunkTimeout is the time after which a chunk counts as not stored. It is shorter than
	// archive.Stall, so that the error names the cause.
	chunkTimeout = time.Minute
	// checkDenied is the time between two looks at whether the server refuses the chunks.
	checkDenied = 100 * time.Millisecond
)

// Put implements archive.Store. The chunks go to a subject of their own. Then the metadata
// are published with the expectation that the name is free: this makes the object visible.
func (s *Store) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	if err := archive.CheckPut(name, size); err != nil {
		return err
	}
	if _, err := s.free(ctx, name); err != nil {
		return s.wrap("put", name, err)
	}
	info := &jetstream.ObjectInfo{
		Bucket: s.bucket, NUID: nuid.Next(), Size: uint64(size),
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}},
	}
	published := false
	err := s.upload(ctx, info, &archive.Content{In: content, Left: size})
	if err == nil {
		published, err = s.publish(ctx, info)
	}
	if err == nil {
		return nil
	}
	if !published { // no one refers to the chunks
		purging, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		err = errors.Join(err, s.stream.Purge(purging, jetstream.WithPurgeSubject(s.chunks(info.NUID))))
	}
	return s.wrap("put", name, err)
}

// free returns the sequence of the last message with metadata of a name, 0 if there is
// none. The error is archive.ErrExists if there is an object of the name.
func (s *Store) free(ctx context.Context, name string) (sequence uint64, err error) {
	info, sequence, err := s.last(ctx, name)
	if err == nil && info != nil && !info.Deleted {
		err = archive.ErrExists
	}
	return sequence, err
}

// last returns the last metadata of a name, nil if there are none. Those of a deleted
// object say so. Any server with a copy of the stream may answer first. A copy that lags lacks
// what was just put, so only the leader decides that there is no object.
func (s *Store) last(ctx context.Context, name string) (info *jetstream.ObjectInfo, sequence uint64, err error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, s.meta(name))
	if err == nil {
		if info, err = metadata(m.Data); err != nil || !info.Deleted {
			return info, m.Sequence, err
		}
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, err
	}
	led, err := bus.ReadFromLeader(ctx, s.js.Conn(), bus.LeaderRead{Stream: streamOf(s.bucket), Last: s.meta(name)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err == nil {
		info, err = metadata(led.Data)
	}
	return info, led.Sequence, err
}

func metadata(data []byte) (*jetstream.ObjectInfo, error) {
	info := &jetstream.ObjectInfo{}
	if err := json.Unmarshal(data, info); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return info, nil
}

// upload publishes the chunks, and completes info.
func (s *Store) upload(ctx context.Context, info *jetstream.ObjectInfo, content io.Reader) error {
	hash := sha256.New()
	var sequences runs
	var waiting []jetstream.PubAckFuture
	subject := s.chunks(info.NUID)
	defer func() { s.settle(waiting, subject) }()
	check := time.NewTicker(checkDenied)
	defer check.Stop()
	acknowledge := func(keep int) error {
		for len(waiting) > keep {
			select {
			case ack := <-waiting[0].Ok():
				sequences.add(ack.Sequence)
				waiting = waiting[1:]
			case err := <-waiting[0].Err():
				return err
			case <-check.C:
				if err := s.denied(subject); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	for end := false; !end; {
		chunk := make([]byte, chunkSize) // which nats.go retains until it is acknowledged
		n, err := io.ReadFull(content, chunk)
		if end = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && content.(*archive.Content).Err == nil; err != nil && !end {
			return err
		}
		if n == 0 {
			continue
		}
		hash.Write(chunk[:n])
		future, err := s.async.PublishAsync(subject, chunk[:n])
		if err != nil {
			return err
		}
		waiting = append(waiting, future)
		info.Chunks++
		if err := acknowledge(window); err != nil {
			return err
		}
	}
	if err := acknowledge(0); err != nil {
		return err
	}
	info.Digest = "SHA-256=" + base64.URLEncoding.EncodeToString(hash.Sum(nil))
	info.Metadata = map[string]string{sequencesKey: s.created() + sequences.String()}
	return nil
}

// settleTimeout is the time for which a Put that failed waits for its chunks to be stored,
// before it purges them.
const settleTimeout = 5 * time.Second

// settle waits until the server has answered, unless it refuses the chunks.
func (s *Store) settle(waiting []jetstream.PubAckFuture, subject string) {
	if s.denied(subject) != nil {
		return
	}
	timeout := time.After(settleTimeout)
	for _, future := range waiting {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			_ = err // the Put has failed already
		case <-timeout:
			return
		}
	}
}

// publish publishes the metadata if the name is free. published reports whether they are,
// or may be, stored.
func (s *Store) publish(ctx context.Context, info *jetstream.ObjectInfo) (published bool, err error) {
	data, err := json.Marshal(info)
	if err != nil {
		return false, err
	}
	expected, err := s.free(ctx, info.Name)
	if err != nil {
		return false, err
	}
	doubt := false // an attempt may have been stored
	for range attempts {
		m := &nats.Msg{Subject: s.meta(info.Name), Data: data, Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
		_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(expected))
		switch class := bus.Classify(err); {
		case class == bus.Stored:
			return true, nil
		case class == bus.Conflict:
			// Either an earlier attempt was stored, or the object of another caller.
			stored, _, failed := s.last(ctx, info.Name)
			switch {
			case failed != nil:
				return true, failed
			case stored != nil && stored.NUID == info.NUID:
				return true, nil
			case stored != nil && !stored.Deleted:
				return false, archive.ErrExists
			}
			// A server may propose a message which is in no copy of the stream yet, such as an earlier attempt.
		case class == bus.Ambiguous:
			doubt = true
		case class != bus.Retry:
			return doubt, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return doubt, err
		}
	}
	return doubt, err
}
