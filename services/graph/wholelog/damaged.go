package wholelog

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
)

// For clients that read what happened, a segment that is damaged, or of a newer version, is as one that is missing: they are
// refused before it, with what can be read behind it. A state is not folded past it: that fails, and names the segment.

// damagedAgain is the time after which a segment that could not be used is tried again: it may have been replaced.
const damagedAgain = time.Minute

// PassOver makes the log pass over segments that cannot be used, and calls report for them, which must be safe for
// concurrent use. It is called before the log is used.
func (l *Log) PassOver(report func(entry string, err error)) { l.report = report }

// passes reports whether a segment is passed over after an error.
func (l *Log) passes(err error) bool { return l.report != nil && archive.IsDamagedSegment(err) }

// wrap returns the error of a read of a segment. If the segment is to be passed over, it is reported and not used from now
// on, and the segments are listed again.
func (l *Log) wrap(item archive.Item, err error) error {
	err = unavailable(fmt.Errorf("archive %s: segment %s: %w", l.store, item.Entry.Name, err))
	if !l.passes(err) {
		return err
	}
	l.mu.Lock()
	l.damaged[item.Name] = time.Now()
	l.passed++
	l.open = slices.DeleteFunc(l.open, func(o opened) bool { return o.name == item.Name })
	l.received = time.Time{}
	l.mu.Unlock()
	l.report(item.Entry.Name, err)
	return err
}

// undamaged returns the segments without those that could not be used lately.
func (l *Log) undamaged(segments []archive.Item) []archive.Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.damaged, func(_ archive.Name, at time.Time) bool { return time.Since(at) >= damagedAgain })
	return slices.DeleteFunc(segments, func(i archive.Item) bool {
		_, is := l.damaged[i.Name]
		return is
	})
}

// passings returns how often a segment was passed over until now.
func (l *Log) passings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed
}
