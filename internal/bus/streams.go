package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
)

// LogStream returns the name of the stream of a realm's log.
func LogStream(realm string) string { return root + "-" + realm + "-log" }

// WorkStream returns the name of the stream of a realm's queues.
func WorkStream(realm string) string { return root + "-" + realm + "-work" }

// FinalizeStream returns the name of the stream of calls of external finalizers and of
// agents.
func FinalizeStream(realm string) string { return root + "-" + realm + "-finalize" }

// ParkedStream returns the name of the stream of parked work.
func ParkedStream(realm string) string { return root + "-" + realm + "-parked" }

// WarningStream returns the name of the stream of warnings.
func WarningStream(realm string) string { return root + "-" + realm + "-warning" }

// The durable consumers of the work stream.
const (
	DurableProcessors = "processors"
	DurableOrphan     = "orphan"
	DurableFinish     = "finish"
	DurableDrain      = "drain"
)

// FinalizerDurable returns the name of the durable consumer of an external
// finalizer: f- and the SHA-256 of the finalizer's name, in hexadecimal. All
// processes that run the finalizer share the consumer. The names of finalizers have
// characters that the names of consumers must not have, and may be longer.
func FinalizerDurable(finalizer string) string {
	sum := sha256.Sum256([]byte(finalizer))
	return "f-" + hex.EncodeToString(sum[:])
}

// ExpiryDurable returns the name of the durable consumer of the calls about notices to a program:
// e- and the SHA-256 of the name, as FinalizerDurable.
func ExpiryDurable(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "e-" + hex.EncodeToString(sum[:])
}

// AgentDurable returns the name of the durable consumer of a kind's agent:
// a-<plural> in the core group, a-<plural>_<group> otherwise, where the dots of the
// group are spelled _. All processes that run the agent share the consumer.
//
// A plural has no _, so no two kinds share a name. Plural and group have at most 252
// bytes together, as they are the name of the Kind object: a name has at most 255, as
// NATS requires.
func AgentDurable(group, plural string) string {
	if group == "" {
		return "a-" + plural
	}
	return "a-" + plural + "_" + GroupToken(group)
}

const (
	// maxWork bounds the work that is queued, in messages: chunks of up to 4,000 uids.
	maxWork = 4096
	// maxParked bounds the work that is parked, in messages: see maxWorkSize for their size.
	maxParked = 1 << 13
	// maxWorkSize bounds each message of work, queued or parked, in bytes: a client that
	// may publish work could fill the disk of the log otherwise. A chunk of work has at
	// most 256 KiB, and one more uid.
	maxWorkSize = mebibyte
	// maxCalls bounds the calls of external finalizers and agents that are queued.
	maxCalls = 1 << 20
	mebibyte = 1 << 20
	// ExpireAgain is the time after which an unanswered call about a notice is published again. Such
	// a call has a message id, and the stream drops a second message with that id within this time.
	// Other calls have no message id.
	ExpireAgain = 10 * time.Minute
	// keptWarnings is the time for which a warning is stored after it was last published.
	keptWarnings = time.Hour
	// maxCallBytes bounds the size of the queued calls, in bytes. The graph service enforces it
	// (CallCapacity); the stream has no limit in bytes.
	maxCallBytes = 1024 * mebibyte
)

// CallCapacity returns the maximum number of calls of external finalizers and agents in a
// realm's stream, and their maximum size in bytes.
func CallCapacity() (calls int, bytes int64) { return maxCalls, maxCallBytes }

// LogConfig returns the configuration of a realm's log. The log is the source of truth, so
// no setting may lose or delay a message. The stream does not compress, as large commits
// are compressed already (internal/codec/envelope): a server that was killed reads the
// whole log again, and would decompress all of it, twice.
func LogConfig(realm string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        LogStream(realm),
		Description: "event log of realm " + realm + ": the only truth",
		Subjects:    []string{LogSubject(realm)},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		MaxAge:      0,
		MaxMsgs:     -1,
		MaxBytes:    -1,
		MaxMsgSize:  -1,
		Replicas:    replicas,
		AllowDirect: true,
		DenyDelete:  true,
		// Commits that are archived are cut by a purge. Only the graph role may purge.
		DenyPurge: false,
	}
}

// CheckLog returns an error if the stream of a log could lose acknowledged messages, or
// would refuse messages that it must store.
func CheckLog(realm string, c jetstream.StreamConfig) error {
	want := LogConfig(realm, 0)
	for _, f := range []struct {
		name     string
		is, want any
	}{
		{"storage", c.Storage, want.Storage},
		{"retention", c.Retention, want.Retention},
		{"discard", c.Discard, want.Discard},
		{"max_age", c.MaxAge, want.MaxAge},
		{"max_msgs", c.MaxMsgs, want.MaxMsgs},
		{"max_msgs_per_subject", max(c.MaxMsgsPerSubject, -1), int64(-1)},
		{"max_bytes", c.MaxBytes, want.MaxBytes},
		{"max_msg_size", c.MaxMsgSize, want.MaxMsgSize},
		{"allow_msg_ttl", c.AllowMsgTTL, false},
		{"deny_delete", c.DenyDelete, want.DenyDelete},
		{"allow_rollup_hdrs", c.AllowRollup, want.AllowRollup},
		{"persist_mode", c.PersistMode, want.PersistMode},
		{"no_ack", c.NoAck, false},
		{"sealed", c.Sealed, false},
		{"allow_direct", c.AllowDirect, want.AllowDirect}, // the log is read by direct get
	} {
		if f.is != f.want {
			return fmt.Errorf("stream %s cannot hold a log: its %s is %v and must be %v; change the stream, or remove it if it is empty", c.Name, f.name, f.is, f.want)
		}
	}
	if !slices.Equal(c.Subjects, want.Subjects) || c.SubjectTransform != nil || c.Mirror != nil || len(c.Sources) > 0 {
		return fmt.Errorf("stream %s cannot hold a log: its one subject must be %s, as it is published, and it must be no mirror", c.Name, want.Subjects[0])
	}
	return nil
}

// WorkConfigs returns the configurations of a realm's other streams. Queued work, calls and
// warnings are derived from the state and published again if they are lost, so their streams
// need not sync to disk. That of parked work does.
//
// They are bounded by numbers of messages, not by bytes: a server reserves the maximum
// bytes of a stream on its disk, and would refuse to create the streams of further realms
// when its disk is reserved.
func WorkConfigs(realm string, replicas int) []jetstream.StreamConfig {
	work := jetstream.StreamConfig{
		Name:        WorkStream(realm),
		Description: "work of realm " + realm + ": derived, re-publishable",
		Subjects:    []string{WorkSubject(realm, ">")},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		MaxMsgs:     maxWork,
		MaxBytes:    -1, // see WorkConfigs
		MaxMsgSize:  maxWorkSize,
		Replicas:    replicas,
	}
	finalize := jetstream.StreamConfig{
		Name:                 FinalizeStream(realm),
		Description:          "calls of external finalizers, agents and expiry policies in realm " + realm + ": derived, re-publishable",
		Subjects:             []string{under(realm, "finalize.>"), under(realm, "terminate.>"), ExpireCalls(realm)},
		Duplicates:           ExpireAgain,
		Retention:            jetstream.WorkQueuePolicy,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    1,
		MaxMsgs:              maxCalls,
		MaxBytes:             -1,
		Replicas:             replicas,
	}
	parked := jetstream.StreamConfig{
		Name:              ParkedStream(realm),
		Description:       "work of realm " + realm + " that kept failing and waits for a person",
		Subjects:          []string{root + "." + realm + ".parked.>"},
		Retention:         jetstream.LimitsPolicy,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           maxParked,
		MaxBytes:          -1,
		MaxMsgSize:        maxWorkSize,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		AllowDirect:       true,
	}
	warning := jetstream.StreamConfig{
		Name:              WarningStream(realm),
		Description:       "warnings about objects of realm " + realm + ": derived, said again while they hold",
		Subjects:          []string{WarningFilter(realm, "")},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           1 << 16,
		MaxBytes:          -1,
		MaxAge:            keptWarnings,
		AllowDirect:       true,
		Replicas:          replicas,
	}
	for _, c := range []*jetstream.StreamConfig{&work, &finalize, &warning} {
		if replicas > 1 {
			c.Storage = jetstream.MemoryStorage
		} else {
			c.Storage = jetstream.FileStorage
			c.PersistMode = jetstream.AsyncPersistMode
		}
	}
	return []jetstream.StreamConfig{work, finalize, parked, warning}
}

// WorkConsumers returns the configurations of the consumers of the work stream. MaxDeliver
// has no limit, because workers count attempts and park work that keeps failing.
func WorkConsumers(realm string) []jetstream.ConsumerConfig {
	var list []jetstream.ConsumerConfig
	for _, c := range []struct{ durable, queue string }{
		{DurableProcessors, QueueDirty}, {DurableOrphan, QueueOrphan}, {DurableFinish, QueueFinish}, {DurableDrain, QueueDrain},
	} {
		list = append(list, jetstream.ConsumerConfig{
			Durable:       c.durable,
			FilterSubject: WorkSubject(realm, c.queue),
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       WorkAckWait,
			MaxDeliver:    -1,
			MaxAckPending: maxWork,
			// Workers request one message at a time. So a pull request without an expiry
			// whose client is gone delays one message by the AckWait, not all.
			MaxRequestBatch: 1,
		})
	}
	return list
}

// DeleteStreams deletes all streams of a realm, its log among them, the CutKey of the log, and the leases of controllers. It is no error
// if they do not exist. It calls check before it deletes each, and ends if that returns an error.
func DeleteStreams(ctx context.Context, js jetstream.JetStream, realm string, check func() error) error {
	if err := check(); err != nil {
		return err
	}
	if err := deleteKey(ctx, js, WriterBucket, CutKey(realm)); err != nil {
		return err
	}
	if err := dropLeases(ctx, js, realm); err != nil {
		return err
	}
	// The log goes last: while it exists, a deletion that was interrupted is continued.
	names := []string{WorkStream(realm), FinalizeStream(realm), ParkedStream(realm), WarningStream(realm), LogStream(realm)}
	for _, name := range names {
		if err := check(); err != nil {
			return err
		}
		if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	return nil
}

// EnsureStreams creates or updates a realm's streams and consumers, except for the log. It
// does not touch those that are up to date, so that it succeeds on a full disk. Its errors are StreamErrors.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, realm string, replicas int) error {
	var g errgroup.Group
	for _, c := range WorkConfigs(realm, replicas) {
		g.Go(func() error { return ensureStream(ctx, js, c) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, c := range WorkConsumers(realm) {
		g.Go(func() error { return ensureConsumer(ctx, js, WorkStream(realm), c) })
	}
	return g.Wait()
}

// StoresConsumers returns nil if the NATS server stores a new consumer of a realm's calls. If it
// does not, as where its disk is full, another consumer that cannot be stored is not damaged. The
// new consumer is deleted again.
func StoresConsumers(ctx context.Context, js jetstream.JetStream, realm string) error {
	c := FinalizerConsumer(realm, "probe."+root+".dev/"+nuid.Next())
	if _, err := js.CreateConsumer(ctx, FinalizeStream(realm), c); err != nil {
		return fmt.Errorf("stream %s: a new consumer: %w", FinalizeStream(realm), err)
	}
	if err := js.DeleteConsumer(ctx, FinalizeStream(realm), c.Durable); err != nil {
		return fmt.Errorf("stream %s: consumer %s: %w", FinalizeStream(realm), c.Durable, err)
	}
	return nil
}

// RecreateStream deletes a stream with its messages and consumers, and creates it again without
// them. The messages must be such that the graph service publishes them again, as those of
// WorkStream and FinalizeStream are. A stream that the server has stopped is deleted only; EnsureStreams
// creates it.
func RecreateStream(ctx context.Context, js jetstream.JetStream, name string) error {
	s, err := js.Stream(ctx, name)
	stopped := IsConsumerDamaged(err)
	if err != nil && !stopped {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	if stopped {
		return nil
	}
	return ensureStream(ctx, js, s.CachedInfo().Config)
}

// ensureStream creates or updates a stream. It does nothing if the stream has this
// configuration.
func ensureStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	_, err := js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		_, err = js.UpdateStream(ctx, c)
	}
	if err != nil {
		return &StreamError{Stream: c.Name, Err: err}
	}
	return nil
}

// StreamError says that a stream, or one of its consumers, could not be created or updated.
type StreamError struct {
	Stream, Consumer string // Consumer is empty for the stream itself
	Err              error
}

func (e *StreamError) Error() string {
	if e.Consumer == "" {
		return fmt.Sprintf("stream %s: %v", e.Stream, e.Err)
	}
	return fmt.Sprintf("consumer %s of stream %s: %v", e.Consumer, e.Stream, e.Err)
}

func (e *StreamError) Unwrap() error { return e.Err }

// ensureConsumer creates or updates a consumer. It does nothing if the consumer has this
// configuration.
func ensureConsumer(ctx context.Context, js jetstream.JetStream, stream string, c jetstream.ConsumerConfig) error {
	_, err := js.CreateConsumer(ctx, stream, c)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		_, err = js.UpdateConsumer(ctx, stream, c)
	}
	if err != nil {
		return &StreamError{Stream: stream, Consumer: c.Durable, Err: err}
	}
	return nil
}

// OpenLog opens the stream of a realm's log. It returns an error if CheckLog does.
func OpenLog(ctx context.Context, js jetstream.JetStream, realm string) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, LogStream(realm))
	return checkedLog(realm, s, err)
}

// EnsureLog is OpenLog, but creates the stream if it does not exist. It does not change an
// existing stream.
func EnsureLog(ctx context.Context, js jetstream.JetStream, realm string, replicas int) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, LogStream(realm))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, LogConfig(realm, replicas))
	}
	return checkedLog(realm, s, err)
}

// BeginLog creates the stream of a realm's log, whose first message gets the sequence first. A
// stream that never had a message is replaced. The error wraps
// jetstream.ErrStreamNameAlreadyInUse if the stream has messages, or had some.
func BeginLog(ctx context.Context, js jetstream.JetStream, realm string, replicas int, first uint64) (jetstream.Stream, error) {
	err := DiscardLog(ctx, js, realm)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	c := LogConfig(realm, replicas)
	c.FirstSeq = first
	s, err := js.CreateStream(ctx, c)
	return checkedLog(realm, s, err)
}

// DiscardLog deletes the stream of a realm's log if it never had a message.
func DiscardLog(ctx context.Context, js jetstream.JetStream, realm string) error {
	s, err := js.Stream(ctx, LogStream(realm))
	if err != nil || HadMessages(s.CachedInfo()) {
		return err
	}
	return js.DeleteStream(ctx, LogStream(realm))
}

// HadMessages reports whether a stream has messages, or had some.
func HadMessages(info *jetstream.StreamInfo) bool {
	return info.State.LastSeq >= max(info.Config.FirstSeq, 1)
}

func checkedLog(realm string, s jetstream.Stream, err error) (jetstream.Stream, error) {
	if err != nil {
		return nil, err
	}
	if err := CheckLog(realm, s.CachedInfo().Config); err != nil {
		return nil, err
	}
	return s, nil
}
