package replay

import (
	"sync"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// commitSummary has the parts of a commit that the liveness pass needs.
type commitSummary struct {
	header   eventlog.Header
	newKey   eventlog.KeyID
	origin   lifecycle.Origin // zero unless the log is a recorded one
	checksum uint64
	removed  []candidateKey // the objects that it removes
}

// summaryOf returns the summary of a message, nil if it is no commit of the realm.
func summaryOf(keys *eventlog.Keys, m eventlog.Message) (c *commitSummary, err error) {
	h, foreign := keys.Check(m)
	if foreign != "" {
		return nil, nil //nolint:nilnil // the message is no commit
	}
	c = &commitSummary{header: h}
	err = withCommit(m, func(commit []byte) error {
		c.checksum = eventlog.Checksum(commit)
		if c.newKey, err = eventlog.NewKeyOf(commit); err != nil {
			return err
		}
		if keys.Unkeyed() {
			if c.origin, err = commitcodec.Origin(commit); err != nil {
				return err
			}
		}
		return eventlog.Removals(commit, func(u uid.UID) {
			if k, ok := candidateKeyOf(u); ok {
				c.removed = append(c.removed, k)
			}
		})
	})
	return c, err
}

// buffers are for commits that are decompressed for one call of withCommit.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// withCommit calls read with the commit in a message, which is valid during the call.
func withCommit(m eventlog.Message, read func(commit []byte) error) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	commit, err := m.Open(buffer)
	if err != nil {
		return err
	}
	return read(commit)
}
