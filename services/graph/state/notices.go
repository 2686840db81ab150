package state

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The table of notices has a row for each object for which an expiry policy has given notice. The
// row is deleted when the object is deleted or marked. While there is none, objects cost no read.

// noticeRow has the notices of an object, before this Tx and now.
type noticeRow struct{ was, now []lifecycle.Notice }

// Notices returns the notices of an object, ordered by the uid of the policy.
func (tx *Tx) Notices(u uid.UID) []lifecycle.Notice {
	if tx.countNoticed().now == 0 {
		return nil
	}
	return tx.noticeRow(u).now
}

// SetNotice sets the notice that a policy has given for an object; without a generation it is
// withdrawn. It does nothing if the object does not exist or is being deleted.
func (tx *Tx) SetNotice(u uid.UID, n lifecycle.Notice) {
	if o := tx.Node(u); o != nil && !o.Terminating() {
		tx.setNotices(u, lifecycle.WithNotice(tx.noticeRow(u).now, n))
	}
}

// endNotices removes the notices of an object that is deleted or marked.
func (tx *Tx) endNotices(before, after *lifecycle.Node) {
	if before != nil && (after == nil || after.Terminating()) && tx.countNoticed().now > 0 {
		tx.setNotices(before.UID, nil)
	}
}

// countNoticed returns the number of objects with notices.
func (tx *Tx) countNoticed() *rowCount {
	if tx.noticed == nil {
		tx.noticed = tx.countRows(func(t *Tx) *rowCount { return t.noticed }, tx.r.noticed)
	}
	return tx.noticed
}

func (tx *Tx) noticeRow(u uid.UID) *noticeRow {
	r := tx.noticeRows[u]
	if r == nil {
		r = &noticeRow{}
		if was := nearest(tx, func(t *Tx) *noticeRow { return t.noticeRows[u] }); was != nil {
			r.now = was.now
		} else {
			r.now = tx.r.notices(u)
		}
		r.was = r.now
		tx.noticeRows[u] = r
	}
	return r
}

func (tx *Tx) setNotices(u uid.UID, to []lifecycle.Notice) {
	r, n := tx.noticeRow(u), tx.countNoticed()
	if slices.Equal(r.now, to) {
		return
	}
	if tx.recording {
		was, before := *r, *n
		tx.onRollback(func() { *r, *n = was, before })
	}
	switch {
	case len(r.now) == 0:
		n.now++
	case len(to) == 0:
		n.now--
	}
	r.now = to
}

func (tx *Tx) encodeNotices(w *batchWriter) {
	for u, r := range tx.noticeRows {
		switch key := keyOfUID(tableNotice, u); {
		case slices.Equal(r.now, r.was):
		case len(r.now) > 0:
			w.put(key, appendNotices(nil, r.now))
		default:
			w.delete(key)
		}
	}
	tx.noticed.encode(w, keyNotices)
}

func appendNotices(b []byte, list []lifecycle.Notice) []byte {
	row := &coppicev1.ExpiryNotices{}
	for i := range list {
		row.Notices = append(row.Notices, noticeProto(&list[i]))
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, row)
	if err != nil {
		panic(err) // it has no strings that are not UTF-8
	}
	return b
}

func noticeProto(n *lifecycle.Notice) *coppicev1.ExpiryNotice {
	p := &coppicev1.ExpiryNotice{Policy: []byte(n.Policy), Generation: n.Generation, Given: int64(n.Given), Ends: int64(n.Ends)}
	if n.Answer != (lifecycle.NoticeAnswer{}) {
		p.Answer = &coppicev1.NoticeAnswer{Actor: n.Answer.Actor, Reason: n.Answer.Reason, Until: int64(n.Answer.Until)}
	}
	return p
}

func decodeNotices(b []byte) (list []lifecycle.Notice, err error) {
	var row coppicev1.ExpiryNotices
	if err := proto.Unmarshal(b, &row); err != nil {
		return nil, err
	}
	for _, p := range row.GetNotices() {
		a := p.GetAnswer()
		list = append(list, lifecycle.Notice{
			Policy: uid.UID(p.GetPolicy()), Generation: p.GetGeneration(), Given: lifecycle.Time(p.GetGiven()), Ends: lifecycle.Time(p.GetEnds()),
			Answer: lifecycle.NoticeAnswer{Actor: a.GetActor(), Reason: a.GetReason(), Until: lifecycle.Time(a.GetUntil())},
		})
	}
	return list, nil
}

func (r *reader) noticed() (n uint64) {
	r.get("notices", keyNotices, func(v []byte) error { return decodeUvarints(v, &n) })
	return n
}

func (r *reader) notices(u uid.UID) (list []lifecycle.Notice) {
	r.get("notices", keyOfUID(tableNotice, u), func(v []byte) (err error) {
		list, err = decodeNotices(v)
		return err
	})
	return list
}

// Noticed returns the number of objects with notices.
func (s *Snapshot) Noticed() uint64 {
	if s.noticed == nil {
		n := s.r.noticed()
		s.noticed = &n
	}
	return *s.noticed
}

// Notices returns the notices of an object, ordered by the uid of the policy.
func (s *Snapshot) Notices(u uid.UID) []lifecycle.Notice {
	if s.Noticed() == 0 {
		return nil
	}
	return s.r.notices(u)
}

// EachNotice calls visit for the objects with notices whose uids are behind one, ordered by their uids,
// until visit returns false.
func (s *Snapshot) EachNotice(after uid.UID, visit func(uid.UID, []lifecycle.Notice) bool) {
	var start []byte
	if after != "" {
		start = append(keyOfUID(tableNotice, after), nul)
	}
	s.r.scan("notices", []byte{tableNotice}, start, func(key, value []byte) bool {
		list, err := decodeNotices(value)
		if err != nil {
			s.r.fail("notices", err)
			return false
		}
		return visit(uid.UID(key[1:]), list)
	})
}
