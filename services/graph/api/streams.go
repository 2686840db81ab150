package api

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// streamsServer serves the verbs that read streams.
type streamsServer struct {
	*servedReplica
	c         StreamsConfig
	consuming chan struct{} // has an element while a call creates a consumer

	verifiers *quota
	verifying sync.Mutex
	running   *verification // the one that was begun last; nil if there is none
	// verifyPlace is the place of the verification that is carried out.
	verifyPlace chan struct{}

	logReaders, warningReaders *quota
	logChunks                  *admission.Limiter // one place for each chunk that is read
}

// StreamsConfig is what a streamsServer needs in addition to a server.
type StreamsConfig struct {
	// Admit takes a place for a watch of an actor, which leave releases. It fails if no
	// place is free.
	Admit func(actor string) (leave func(), err *lifecycle.Error)
	// Watch serves an admitted watch until it ends, and returns the reason.
	Watch func(ctx context.Context, t watch.Target) error
	// Heartbeat is the maximum time between two messages of a streamed reply; it must be positive.
	Heartbeat time.Duration
	// ReplyTime is the maximum duration of a watch, and of a reply with commits or warnings; 5 min
	// and 1 min if zero.
	ReplyTime time.Duration
	// Verify compares the state with its log, from the first commit on if full is set. It calls
	// progress with sequences: of the last commit that was compared, and of the last one.
	Verify func(ctx context.Context, full bool, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error)
	Log    LogReader
	// JS reads and changes streams, on a connection that serves no requests.
	JS jetstream.JetStream
	// Consumers observes the consumers of calls.
	Consumers *consumers.Observer
}

// newStreamsServer returns the verbs of a replica that read streams.
func newStreamsServer(s *servedReplica, c StreamsConfig) *streamsServer {
	quota := func(what string, each, of int, shared *admission.Limiter) *quota {
		return &quota{what: what, places: admission.New(of, each).Within(shared, s.Realm), shared: shared}
	}
	return &streamsServer{
		servedReplica: s, c: c, consuming: make(chan struct{}, 1), verifyPlace: make(chan struct{}, 1),
		logChunks:      admission.New(maxLogReading, maxLogReading).Within(s.shared.logChunks, s.Realm),
		verifiers:      quota("verifications", maxVerifiersActor, maxVerifiers, s.shared.verifiers),
		logReaders:     quota("readers of the log", maxLogReadersActor, maxLogReaders, s.shared.logReaders),
		warningReaders: quota("readers of warnings", maxWarningReadersActor, maxWarningReaders, s.shared.warningReaders),
	}
}
