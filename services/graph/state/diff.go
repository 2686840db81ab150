package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Difference is the first key at which two states differ.
type Difference struct {
	Key string
	// A and B describe the values; "nothing" where there is no such key.
	A, B string
}

func (d *Difference) String() string { return fmt.Sprintf("%s: %s, but %s", d.Key, d.A, d.B) }

// Diff compares two states key by key. It returns nil if they are the same.
func Diff(a, b *Snapshot) (d *Difference, err error) {
	err = protect(func() (err error) {
		d, err = diff(a, b)
		return err
	})
	return d, err
}

func diff(a, b *Snapshot) (d *Difference, err error) {
	ia, err := a.snap.NewIter(nil)
	if err != nil {
		return nil, fmt.Errorf("state: diff: %w", err)
	}
	defer func() { err = errors.Join(err, ia.Close()) }()
	ib, err := b.snap.NewIter(nil)
	if err != nil {
		return nil, fmt.Errorf("state: diff: %w", err)
	}
	defer func() { err = errors.Join(err, ib.Close()) }()
	ia.First()
	ib.First()
	for ia.Valid() || ib.Valid() {
		if a.r.ended("state") {
			return nil, a.Err()
		}
		order := 0
		switch {
		case !ib.Valid():
			order = -1
		case !ia.Valid():
			order = 1
		default:
			order = bytes.Compare(ia.Key(), ib.Key())
		}
		switch {
		case order < 0:
			return &Difference{describeKey(ia.Key()), describeValue(ia.Key(), ia.Value()), "nothing"}, nil
		case order > 0:
			return &Difference{describeKey(ib.Key()), "nothing", describeValue(ib.Key(), ib.Value())}, nil
		}
		va, err := ia.ValueAndErr()
		if err != nil {
			a.r.fail("state", err)
			return nil, fmt.Errorf("state: diff: %w", err)
		}
		vb, err := ib.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("state: diff: %w", err)
		}
		if !bytes.Equal(va, vb) {
			return &Difference{describeKey(ia.Key()), describeValue(ia.Key(), va), describeValue(ib.Key(), vb)}, nil
		}
		ia.Next()
		ib.Next()
	}
	return nil, errors.Join(ia.Error(), ib.Error())
}

// describeKey returns a description of a key.
func describeKey(key []byte) string {
	rest := key[1:]
	withUID := func(what string) string {
		u, tail, err := uid.CutBytes(rest)
		if err != nil {
			if used, ok := bytes.CutPrefix(rest, []byte(users)); ok {
				if u, _, err := uid.CutBytes(used); err == nil {
					return fmt.Sprintf("%s of the users of %s", what, u)
				}
			}
			return fmt.Sprintf("%s %x", what, rest)
		}
		if len(tail) > 0 {
			return fmt.Sprintf("%s of %s, %q", what, u, tail)
		}
		return fmt.Sprintf("%s of %s", what, u)
	}
	switch key[0] {
	case tableName:
		resource, namespace, name := splitNameKey(key)
		return fmt.Sprintf("name %s/%s in namespace %q", resource, name, namespace)
	case tableProtected:
		resource, namespace, name := splitNameKey(key)
		return fmt.Sprintf("protection of %s/%s in namespace %q", resource, name, namespace)
	case tableExpiry:
		at, u := splitExpiryKey(key)
		return fmt.Sprintf("expiry of %s at %s", u, at.Time())
	case tableNode:
		return withUID("node")
	case tableBody:
		return withUID("body")
	case tableEdge:
		return withUID("edge")
	case tableClaim:
		return withUID("counter")
	case tableAbsent:
		return withUID("absent owner")
	case tableWork:
		return withUID("pending")
	case tableNotice:
		return withUID("notices")
	case tableReleased:
		return withUID("released")
	case tableKind:
		return "kind " + string(rest)
	case tableBrake:
		return "brake of " + string(rest)
	case tableSession:
		return "import session " + string(rest)
	case tableRealm:
		return "realm " + string(rest)
	case tableMeta:
		return "meta " + string(rest)
	case tableCommands:
		if span, k, ok := splitCommandKey(key); ok {
			return fmt.Sprintf("command %s of actor %q, in span %d", uuid.UUID(k.ID), k.Actor, span)
		}
	case tableRemoved, tableIndex, tablePositions:
		return fmt.Sprintf("row %c %d", key[0], numberOfKey(key))
	}
	return fmt.Sprintf("%x", key)
}

func describeValue(key, v []byte) string {
	switch {
	case key[0] == tableNode:
		if n, k, err := decodeNodeValue(v); err == nil {
			p := lifecycle.Object{Node: n}.API()
			return fmt.Sprintf("%v, parent %t, used %t", p, k.parent, k.used)
		}
	case key[0] == tableWork:
		if r, err := decodeWorkRow(v); err == nil {
			return fmt.Sprintf("%+v", r)
		}
	case key[0] == tableClaim:
		if c, err := decodeCounter(v); err == nil {
			return fmt.Sprintf("%+v", c)
		}
	case key[0] == tableNotice:
		if list, err := decodeNotices(v); err == nil {
			return fmt.Sprintf("%+v", list)
		}
	case bytes.Equal(key, keyCheckpoint):
		var c coppicev1.Checkpoint
		if proto.Unmarshal(v, &c) == nil {
			return c.String()
		}
	}
	return fmt.Sprintf("%x", v)
}

// Totals counts the rows of a state.
type Totals struct {
	Objects, Edges, Pending int
}

// Totals reads the whole state and counts its rows.
func (s *Snapshot) Totals() (Totals, error) {
	var t Totals
	for table, n := range map[byte]*int{tableNode: &t.Objects, tableEdge: &t.Edges, tableWork: &t.Pending} {
		s.r.scan("totals", []byte{table}, nil, func(_, _ []byte) bool {
			*n++
			return true
		})
	}
	return t, s.Err()
}
