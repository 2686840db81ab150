package eventlog

import "github.com/coppice-gc/coppice/internal/codec/commitcodec"

// Header has the fields of a commit other than its commands and events.
type Header = commitcodec.Header

// ErrMalformed is returned for a message that is not a commit.
var ErrMalformed = commitcodec.ErrMalformed

// NewerError is returned for a commit whose format is newer than this program.
type NewerError = commitcodec.NewerError

// Checksum returns the checksum of a commit.
func Checksum(commit []byte) uint64 { return commitcodec.Checksum(commit) }
