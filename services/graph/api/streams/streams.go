package streams

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// Server serves the verbs that read streams.
type Server struct {
	*serve.Replica
	c         Config
	consuming chan struct{} // has an element while a call creates a consumer

	verifiers *quota
	verifying sync.Mutex
	running   *verification // the one that was begun last; nil if there is none
	// verifyPlace is the place of the verification that is carried out.
	verifyPlace chan struct{}

	logReaders, warningReaders *quota
	logChunks                  *admission.Limiter // one place for each chunk that is read
}

// Config is what a Server needs in addition to a serve.Replica.
type Config struct {
	// Admit takes a place for a watch of an actor, which leave releases. It fails if no
	// place is free.
	Admit func(actor string) (leave func(), err *lifecycle.Error)
	// Watch serves an admitted watch until it ends, and returns the reason.
	Watch func(ctx context.Context, t watch.Target) error
	// Graph serves an admitted watch of the graph until it ends, and returns the reason.
	Graph func(ctx context.Context, t watch.GraphTarget) error
	// Tokens encrypts continue tokens that name objects which the actor may not get.
	Tokens Tokens
	// Heartbeat is the maximum time between two messages of a streamed reply; it must be positive.
	Heartbeat time.Duration
	// ReplyTime is the maximum duration of a watch, and of a reply with commits or warnings; 5 min
	// and 1 min if zero.
	ReplyTime time.Duration
	// Verify compares the state with its log, from the first commit on if full is set. It calls
	// progress with sequences: of the last commit that was compared, and of the last one.
	Verify func(ctx context.Context, full bool, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error)
	// Archive puts the log into the archive.
	Archive Archive
	Log     LogReader
	// JS reads and changes streams, on a connection that serves no requests.
	JS jetstream.JetStream
	// Consumers observes the consumers of calls.
	Consumers *consumers.Observer
}

// Tokens encrypts continue tokens.
type Tokens interface {
	Seal(token string) (sealed string, err *lifecycle.Error)
	Open(sealed string) (token string, err *lifecycle.Error)
}

// New returns the verbs of a replica that read streams.
func New(s *serve.Replica, c Config) *Server {
	quota := func(what string, each, of int, shared *admission.Limiter) *quota {
		return &quota{what: what, places: admission.New(of, each).Within(shared, s.Realm), shared: shared}
	}
	return &Server{
		Replica: s, c: c, consuming: make(chan struct{}, 1), verifyPlace: make(chan struct{}, 1),
		logChunks:      admission.New(serve.MaxLogReading, serve.MaxLogReading).Within(s.Shared.LogChunks, s.Realm),
		verifiers:      quota("verifications", serve.ActorVerifiers, serve.MaxVerifiers, s.Shared.Verifiers),
		logReaders:     quota("readers of the log", serve.ActorLogReaders, serve.MaxLogReaders, s.Shared.LogReaders),
		warningReaders: quota("readers of warnings", serve.ActorWarningReaders, serve.MaxWarningReaders, s.Shared.WarningReaders),
	}
}
