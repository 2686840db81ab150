package bus

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Outcome is what is known about a publication after its acknowledgement, or without one.
type Outcome int

// The outcomes.
const (
	// Stored: the message is in the stream.
	Stored Outcome = iota
	// Conflict: another message is at the expected sequence. This attempt has not stored
	// the message; the other message may be an earlier attempt.
	Conflict
	// Full: the stream has no room or, if it keeps one message for each subject, it has a
	// message with this subject already: see SubjectTaken.
	Full
	// Retry: not stored; the same publication may succeed later.
	Retry
	// Ambiguous: the message may be stored, or may still be stored later.
	Ambiguous
	// Refused: not stored, and waiting does not help: there is no permission, no such
	// stream, or the message is too large.
	Refused
)

func (o Outcome) String() string {
	return [...]string{"stored", "conflict", "full", "retry", "ambiguous", "refused"}[o]
}

// The error codes of JetStream that matter here. nats.go names only some.
const (
	codeWrongLastSequence         jetstream.ErrorCode = 10071 // with the actual sequence in the text
	codeWrongLastSequenceConstant jetstream.ErrorCode = 10164 // the same, from a cluster's proposal queue
	codeLastSequenceNotReady      jetstream.ErrorCode = 10163 // the replica does not know yet
	codeStoreFailed               jetstream.ErrorCode = 10077 // limits, or the disk
	codeNotAvailable              jetstream.ErrorCode = 10008 // no leader
	codeInsufficientResources     jetstream.ErrorCode = 10023
	codeAccountLimits             jetstream.ErrorCode = 10002 // those of the account are reached
	codeNoStorage                 jetstream.ErrorCode = 10047 // other streams reserve it
	codeNoMemory                  jetstream.ErrorCode = 10028
	codeClusterNoPeers            jetstream.ErrorCode = 10005
	codeStreamOffline             jetstream.ErrorCode = 10118
	codeMessageTooLarge           jetstream.ErrorCode = 10054
	codeConsumerCreate            jetstream.ErrorCode = 10012 // with the reason in the text
	codeStreamStopped             jetstream.ErrorCode = 10194 // with the reason in the text
)

// Classify returns the outcome of a publication that returned err.
func Classify(err error) Outcome {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return Stored
	case errors.As(err, &api):
		switch api.ErrorCode {
		case codeWrongLastSequence, codeWrongLastSequenceConstant:
			return Conflict
		case codeStoreFailed:
			return Full
		case codeLastSequenceNotReady, codeNotAvailable, codeInsufficientResources, codeAccountLimits, codeClusterNoPeers, codeStreamOffline:
			return Retry
		}
		if api.Code >= 500 {
			return Retry
		}
		return Refused
	case Unsendable(err), errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization):
		return Refused
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrInvalidConnection):
		return Retry // never left this process
	}
	// A timeout, a broken connection, no responders: the message may have been sent, and
	// may be stored later.
	return Ambiguous
}

// Unsendable reports whether err, of a publication, is due to the message itself: it is too
// large, or its subject is malformed. Other messages can be published, but this one only
// after it is changed.
func Unsendable(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge
}

// SubjectTaken reports whether err, of a publication that is Full, is due to a message with the same
// subject, and not to the limits of the stream.
func SubjectTaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, "maximum messages per subject")
}

// IsNotReady reports whether an error of a JetStream request means that NATS, JetStream, a
// stream or a consumer is not available yet, so that waiting can help.
func IsNotReady(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound),
		errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrReconnectBufExceeded):
		return true
	case errors.As(err, &api):
		return Classify(err) == Retry
	}
	return false
}

// Advice returns what to do if NATS has refused storage or memory, and otherwise "". The refusal ends
// when an operator has acted.
func Advice(err error) string {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return ""
	}
	switch api.ErrorCode {
	case codeNoStorage:
		return "raise max_file_store of the NATS server or max_file of the account, or delete a stream that reserves storage (max_bytes)"
	case codeNoMemory:
		return "raise max_memory_store of the NATS server or max_mem of the account, or delete a stream that reserves memory (max_bytes)"
	case codeAccountLimits:
		return "raise max_file or max_mem of the account, or delete streams that it does not need"
	case codeInsufficientResources, codeClusterNoPeers:
		return "start as many NATS servers as --replicas says, with storage and memory that no other stream reserves"
	}
	return ""
}

// IsConsumerDamaged reports whether a consumer cannot be created because the files that a NATS
// server has of it are damaged, or cannot be written. nats-server 2.15.2 does not sync all of
// them, so that a power loss can damage them; it then neither creates nor deletes the consumer, or
// has stopped its stream at its start. Only deleting the stream removes the files: see RecreateStream.
func IsConsumerDamaged(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode == codeConsumerCreate && strings.Contains(api.Description, "creating store for consumer") ||
		api.ErrorCode == codeStreamStopped && strings.Contains(api.Description, "consumer")
}
