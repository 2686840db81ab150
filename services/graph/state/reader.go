package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// reader reads tables. It remembers the first failure. After a failure its results are
// meaningless: callers check err before they use them.
type reader struct {
	db       pebble.Reader
	failures *failures       // of the state; may be nil
	removed  *window[uint64] // the removed uids of the State, by uidHash; nil in a reader that does not need them
	failure  error           // the first failure of a read
	// unreadable is the first body that could not be decoded: see UnreadableError.
	unreadable *UnreadableError
	ctx        context.Context // ends reading, with a failure; nil for never

	key, end, room []byte   // scratch
	rows           []stored // scratch
	// idle has a cursor for each table that was read, for the next read; nil in a reader
	// that is not closed.
	idle map[byte]*cursor
}

// cursor returns a cursor over a table: the idle one, or a new one that is restricted to
// the bounds.
func (r *reader) cursor(table byte, lower, upper []byte) (*cursor, error) {
	if it := r.idle[table]; it != nil {
		delete(r.idle, table)
		return it, nil
	}
	if r.idle != nil || lower == nil {
		lower, upper = []byte{table}, []byte{table + 1}
	}
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper, UseL6Filters: true})
	if err != nil {
		return nil, err
	}
	return &cursor{Iterator: it, at: pebble.IterExhausted}, nil
}

// release ends the use of a cursor.
func (r *reader) release(what string, table byte, it *cursor) {
	if r.idle != nil && r.idle[table] == nil && it.failure == nil && it.Error() == nil {
		r.idle[table] = it
		return
	}
	if err := it.Close(); err != nil {
		r.fail(what, err)
	}
}

// close closes the idle cursors.
func (r *reader) close() (err error) {
	for _, it := range r.idle {
		err = errors.Join(err, it.Close())
	}
	clear(r.idle)
	return err
}

func (r *reader) fail(what string, err error) {
	if r.failure == nil {
		r.failure = fmt.Errorf("state: read %s: %w", what, err)
		if r.failures != nil && (errors.Is(err, ErrDamaged) || pebble.IsCorruptionError(err)) {
			r.failures.damage(r.failure)
		}
	}
}

// recover makes a panic of Pebble about a damaged file a failure. It must be deferred.
func (r *reader) recover(what string) {
	if p := recover(); p != nil {
		r.fail(what, recovered(p))
	}
}

// ended reports whether the context has ended, which is a failure then.
func (r *reader) ended(what string) bool {
	if r.ctx == nil {
		return false
	}
	err := r.ctx.Err()
	if err != nil {
		r.fail(what, err)
	}
	return err != nil
}

// get calls visit with the value, if there is one.
func (r *reader) get(what string, key []byte, visit func([]byte) error) (found bool) {
	if r.ended(what) {
		return false
	}
	defer r.recover(what)
	if r.idle != nil {
		return r.seek(what, key, visit)
	}
	value, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false
	}
	if err == nil {
		err = visit(value)
		// If Pebble could not read the value, it is empty, and only Close returns the error.
		err = errors.Join(err, closer.Close())
	}
	if err != nil {
		r.fail(what, err)
		return false
	}
	return true
}

// seek is get with a cursor.
func (r *reader) seek(what string, key []byte, visit func([]byte) error) (found bool) {
	it, err := r.cursor(key[0], nil, nil)
	if err != nil {
		r.fail(what, err)
		return false
	}
	if found = it.get(key); found {
		value, err := it.ValueAndErr()
		if err == nil {
			err = visit(value)
		}
		if err != nil {
			r.fail(what, err)
			found = false
		}
	} else if err := it.Error(); err != nil {
		r.fail(what, err)
	}
	r.release(what, key[0], it)
	return found
}

func (r *reader) node(u uid.UID) (n *lifecycle.Node, k kin) {
	r.key = appendUIDKey(r.key[:0], tableNode, u)
	r.get("node", r.key, func(v []byte) (err error) {
		n, k, err = decodeNodeValue(v)
		return err
	})
	return n, k
}

func (r *reader) body(u uid.UID) *coppicev1.Body {
	b := &coppicev1.Body{}
	var malformed error
	r.key = appendUIDKey(r.key[:0], tableBody, u)
	r.get("body", r.key, func(v []byte) error {
		malformed = proto.Unmarshal(v, b)
		return nil
	})
	if malformed != nil {
		n, _ := r.node(u)
		return r.malformed(n, malformed)
	}
	return b
}

// malformed records that the body of an object cannot be decoded, and returns an empty one.
func (r *reader) malformed(n *lifecycle.Node, err error) *coppicev1.Body {
	if r.unreadable == nil {
		r.unreadable = &UnreadableError{Node: n, Err: err}
	}
	return &coppicev1.Body{}
}

// err returns the first failure, or else the first body that could not be decoded.
func (r *reader) err() error {
	if r.failure == nil && r.unreadable != nil {
		return r.unreadable
	}
	return r.failure
}

// takeUnreadable returns the body that could not be decoded, nil if there is none, and forgets it.
func (r *reader) takeUnreadable() *UnreadableError {
	err := r.unreadable
	r.unreadable = nil
	return err
}

func (r *reader) lookup(resource, namespace, name string) (u uid.UID) {
	r.key = nameKey(r.key[:0], resource, namespace, name)
	r.get("name", r.key, func(v []byte) error {
		u = uid.UID(v)
		return nil
	})
	return u
}

func (r *reader) counter(owner uid.UID, c lifecycle.Coordinates) (count counter) {
	r.key = claimKey(r.key[:0], owner, c)
	r.get("claim", r.key, func(v []byte) (err error) {
		count, err = decodeCounter(v)
		return err
	})
	return count
}

func (r *reader) pending(u uid.UID) (row WorkRow, ok bool) {
	r.key = appendUIDKey(r.key[:0], tableWork, u)
	ok = r.get("pending", r.key, func(v []byte) (err error) {
		row, err = decodeWorkRow(v)
		return err
	})
	return row, ok
}

func (r *reader) absent(u uid.UID) (revision, claim uint64, ok bool) {
	r.key = appendUIDKey(r.key[:0], tableAbsent, u)
	ok = r.get("absent", r.key, func(v []byte) (err error) {
		revision, claim, err = decodeAbsent(v)
		return err
	})
	return revision, claim, ok
}

// removal returns the record of an object's removal from the window, unless the commit
// that removed it is before the sequence since. The revision is zero if there is none.
func (r *reader) removal(u uid.UID, since uint64) (found removal) {
	sequence, ok := r.removed.find(uidHash(u))
	if !ok || sequence < since {
		return found
	}
	r.get("removed", numberKey(tableRemoved, sequence), func(v []byte) error {
		return decodeRemovals(v, func(e removal) {
			if e.uid == u {
				found = e
			}
		})
	})
	return found
}

func (r *reader) session(id string, v lifecycle.View) lifecycle.Session {
	var s lifecycle.Session
	r.get("session", sessionKey(id), func(row []byte) error {
		var last uint64
		if err := decodeUvarints(row, &last); err != nil {
			return err
		}
		s.Expires = sessionEnd(v, lifecycle.Time(last))
		return nil
	})
	return s
}

// scan calls visit for the keys with the prefix, in order, from the key start
// on if it is not nil, until visit returns false.
func (r *reader) scan(what string, prefix, start []byte, visit func(key, value []byte) bool) {
	defer r.recover(what)
	if start == nil {
		start = prefix
	}
	end := prefixEnd(prefix)
	it, err := r.cursor(prefix[0], start, end)
	if err != nil {
		r.fail(what, err)
		return
	}
	for it.seek(start, end, false); it.on(prefix) && !r.ended(what); it.next(end) {
		value, err := it.ValueAndErr()
		if err != nil {
			r.fail(what, err)
			break
		}
		if !visit(it.Key(), value) {
			break
		}
	}
	if it.failure != nil {
		r.fail(what, it.failure)
	}
	r.release(what, prefix[0], it)
}

// claims calls visit for the counters of the owner's claims.
func (r *reader) claims(owner uid.UID, c lifecycle.Coordinates, visit func(lifecycle.Coordinates, counter) bool) {
	prefix := claimPrefix(owner, c)
	head := len(claimPrefix(owner, lifecycle.Coordinates{}))
	r.scan("claims", prefix, nil, func(key, value []byte) bool {
		count, err := decodeCounter(value)
		if err != nil {
			r.fail("claims", err)
			return false
		}
		return visit(splitClaim(key[head:]), count)
	})
}

// names implements Snapshot.Names.
func (r *reader) names(k *lifecycle.Kind, namespace string, after NameCursor, visit func(namespace, name string, u uid.UID) bool) {
	var start []byte
	if after != (NameCursor{}) {
		start = append(nameKey(nil, k.Resource(), after.Namespace, after.Name), nul)
	}
	r.scan("names", namePrefix(k.Resource(), namespace), start, func(key, value []byte) bool {
		_, ns, name := splitNameKey(key)
		return visit(ns, name, uid.UID(value))
	})
}

// any returns "resource/name" of one object whose name row has the prefix, "" if there is
// none.
func (r *reader) any(prefix []byte) (name string) {
	r.scan("names", prefix, nil, func(key, _ []byte) bool {
		resource, _, n := splitNameKey(key)
		name = resource + "/" + n
		return false
	})
	return name
}
