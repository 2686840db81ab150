package snapshot

import (
	"errors"
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/internal/archive"
)

// IsUnusable reports whether an error concerns one snapshot of an archive, so that another one may be
// usable, and not the store: it is damaged, missing, foreign or of another version.
func IsUnusable(err error) bool {
	var damaged *DamagedError
	var version *VersionError
	return errors.As(err, &damaged) || errors.As(err, &version) || errors.Is(err, ErrForeign) || errors.Is(err, archive.ErrNotFound) || archive.IsDamaged(err)
}

// ErrForeign is wrapped by the error for a file that is not a snapshot, and for a snapshot of
// another realm, commit or content than expected.
var ErrForeign = errors.New("it is foreign")

// errTruncated is what is wrong with a file that ends too early. It wraps
// io.ErrUnexpectedEOF.
var errTruncated = fmt.Errorf("the file ends here, before the end of the snapshot: %w", io.ErrUnexpectedEOF)

// DamagedError is returned for a file that cannot be used: it is truncated (then the error
// wraps io.ErrUnexpectedEOF), changed, or no snapshot at all (then it wraps ErrForeign).
type DamagedError struct {
	// Offset in bytes is where the first part begins that cannot be used: the header, a
	// chunk, the footer, or what follows it. If the file is truncated, it is where the file
	// ends.
	Offset int64
	Err    error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("damaged snapshot: byte %d: %v; use another snapshot, or replay the log", e.Offset, e.Err)
}

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// ReadError is an error of the reader from which a snapshot is read.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return "read snapshot: " + e.Err.Error() }

// Unwrap returns the error of the reader.
func (e *ReadError) Unwrap() error { return e.Err }

// VersionError is returned for a snapshot of a format or layout of another version. Nothing
// was read.
type VersionError struct {
	What        string // "format" or "layout"
	Version     uint32
	Oldest, Own uint32 // that this program reads
}

func (e *VersionError) Error() string {
	later := ""
	if e.Version > e.Own {
		later = ", or a later one"
	}
	return fmt.Sprintf("the snapshot has version %d of the %s, and this program reads versions %d to %d: use the version of Coppice that wrote it%s",
		e.Version, e.What, e.Oldest, e.Own, later)
}

// OtherVersion says that the error is due to the version of Coppice, and not to damage.
func (e *VersionError) OtherVersion() {}
