package eventlog

import (
	"context"
	"errors"
	"sync"
)

// superseded has the positions at which a realm has changed its key.
type superseded struct {
	mu   sync.Mutex
	at   map[uint32]uint64 // the last position of commits under a key or an older one, by the key's number
	none map[uint32]uint64 // a position at which the state ended, and up to which no commit has a newer key
}

// Knows sets the chain at the end of a state of the log, for Skips. It must be called before readers use
// the Log. state must be safe for concurrent use.
func (l *Log) Knows(state func() Chain) { l.chain = state }

// Skips returns why replicas skip a commit that passed Keys.Check because of its realm or its key, or "". They know the
// chain before each commit (Chain.Skips). Skips knows the one at the end of a state, and searches the log for the
// position at which the realm has changed from the commit's key to another one. It skips nothing unless Knows was
// called, and nothing that is only in an archive, which has no skipped commits.
//
// Readers of consecutive messages also skip commits that are not newer than one before them.
func (l *Log) Skips(ctx context.Context, m Message, h *Header) (why string, err error) {
	if l.chain == nil || m.Chained {
		return "", nil
	}
	end := l.chain()
	why = (&Chain{RealmID: end.RealmID, Key: end.Key}).Skips(h)
	switch {
	case why == "" || h.RealmID != end.RealmID:
		return why, nil
	case h.Key > end.Key.Number: // the state is behind the log
		return "", nil
	}
	last, err := l.lastUnder(ctx, h.Key, &end)
	if err != nil || m.Position <= last {
		return "", err
	}
	return why, nil
}

// precedes returns why replicas skip a commit because it is not newer than the one before it, or "".
func (l *Log) precedes(ctx context.Context, m Message, h *Header) (why string, err error) {
	if l.chain == nil || m.Chained {
		return "", nil
	}
	end := l.chain()
	if end.Position <= end.Sequence { // all messages are commits
		return "", nil
	}
	before := Chain{RealmID: end.RealmID}
	from := max(1, m.Position-min(m.Position, keyWindow))
	_, err = l.Read(ctx, from, keyWindow, readBytes, func(older Message) error {
		if older.Position >= m.Position {
			return errFound
		}
		of, foreign := l.keys.Check(older)
		if foreign != "" || of.RealmID != end.RealmID {
			return nil
		}
		why, err := l.Skips(ctx, older, &of)
		if why == "" && err == nil {
			before.Sequence = max(before.Sequence, of.Sequence)
		}
		return err
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	before.Key.Number = h.Key // that was compared before
	return before.Skips(h), err
}

// keyWindow is the number of messages in which lastUnder looks for a commit under another key. So many
// messages in a row that are no commits, or are skipped, hide the change of the key.
const keyWindow = 64

// lastUnder returns the position of the last commit under a key or an older one: the commit that announces
// the next key. The chain at the end of the state has a newer key.
func (l *Log) lastUnder(ctx context.Context, key uint32, end *Chain) (position uint64, err error) {
	if at, ok := l.superseded.of(key, end); ok {
		return at, nil
	}
	_, first, err := l.Last(ctx)
	if err != nil {
		return 0, err
	}
	var next uint64 // the first commit under a newer key
	var announced uint64
	low, high := max(first, 1), end.Position+1
	for low < high {
		middle := low + (high-low)/2
		at, previous, err := l.firstAbove(ctx, key, middle, end)
		if err != nil {
			return 0, err
		}
		if at == 0 {
			low = middle + 1
			continue
		}
		next, announced, high = at, previous, middle
	}
	if next == 0 { // the last commit of the state announces its key
		l.superseded.mu.Lock()
		defer l.superseded.mu.Unlock()
		if l.superseded.none == nil {
			l.superseded.none = map[uint32]uint64{}
		}
		l.superseded.none[key] = end.Position
		return end.Position, nil
	}
	position = next - 1
	_, err = l.Read(ctx, max(first, 1, next-min(next, keyWindow)), keyWindow, readBytes, func(m Message) error {
		if m.Position >= next {
			return errFound
		}
		if _, foreign := l.keys.Check(m); foreign != "" {
			return nil
		}
		commit, err := m.Open(new([]byte))
		if err == nil && Checksum(commit) == announced {
			position = m.Position
		}
		return err
	})
	if err != nil && !errors.Is(err, errFound) {
		return 0, err
	}
	l.superseded.mu.Lock()
	defer l.superseded.mu.Unlock()
	if l.superseded.at == nil {
		l.superseded.at = map[uint32]uint64{}
	}
	l.superseded.at[key] = position
	return position, nil
}

// of returns what is known for a key.
func (s *superseded) of(key uint32, end *Chain) (position uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if position, ok = s.at[key]; ok {
		return position, true
	}
	position, ok = s.none[key]
	return position, ok && position == end.Position
}

// firstAbove returns the position of the first commit under a newer key among the next keyWindow messages, zero
// if there is none, and the checksum of the commit before it.
func (l *Log) firstAbove(ctx context.Context, key uint32, from uint64, end *Chain) (position, previous uint64, err error) {
	_, err = l.Read(ctx, from, keyWindow, readBytes, func(m Message) error {
		if h, foreign := l.keys.Check(m); foreign == "" && h.RealmID == end.RealmID && h.Key > key {
			position, previous = m.Position, h.Previous
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return position, previous, err
}
