package history

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/segment"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Recorded returns the log that a segment has. Its sequences are positions in the stream, as
// those of a realm's log are. Read ignores the options that filter commits.
func Recorded(r *segment.Reader) client.LogClient { return recorded{r} }

type recorded struct{ r *segment.Reader }

func (l recorded) Last(context.Context, ...client.CommitOption) (uint64, error) {
	return l.r.Info().Last.Position, nil
}

func (l recorded) Commit(ctx context.Context, sequence uint64, _ ...client.CommitOption) (*client.Commit, error) {
	for c, err := range l.Read(ctx, client.FromSequence(sequence), client.ToSequence(sequence)) {
		return c.Commit, err
	}
	return nil, &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("the recording has no commit with the sequence %d", sequence)}
}

func (l recorded) Read(ctx context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	return func(yield func(client.LogCommit, error) bool) {
		var of client.LogOptions
		for _, o := range opts {
			o.ApplyToLog(&of)
		}
		n := 0
		for c, err := range l.commits(of) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(client.LogCommit{}, err)
				return
			}
			if of.ToSequence > 0 && c.Position > of.ToSequence {
				return
			}
			decoded, err := Decode(c)
			n++
			if !yield(client.LogCommit{Sequence: c.Position, Commit: decoded, Stored: c.Message}, err) || n == of.Limit {
				return
			}
		}
	}
}

// commits returns the commits from where the options say.
func (l recorded) commits(of client.LogOptions) iter.Seq2[segment.Commit, error] {
	at, err := of.FromSequence, error(nil)
	if at == 0 {
		at, err = l.r.SeekRevision(of.FromRevision)
	}
	if err == nil && at > l.r.Info().Last.Position {
		return func(func(segment.Commit, error) bool) {}
	}
	sequence := uint64(0)
	if err == nil {
		sequence, err = l.r.AtPosition(at)
	}
	if err != nil {
		return func(yield func(segment.Commit, error) bool) { yield(segment.Commit{}, err) }
	}
	return l.r.Commits(sequence)
}

// Decode decodes a commit of a segment.
func Decode(c segment.Commit) (*coppicev1.Commit, error) {
	var decoded coppicev1.Commit
	if err := proto.Unmarshal(c.Content, &decoded); err != nil {
		return nil, fmt.Errorf("commit %d: %w", c.Sequence, err)
	}
	return &decoded, nil
}

// Names are the resources of the kinds that a log has registered so far.
type Names map[kindName]string

type kindName struct{ group, kind string }

// Learn adds the kinds that a commit registers.
func (n Names) Learn(c *coppicev1.Commit) {
	for _, e := range c.GetEvents() {
		var node *coppicev1.Node
		var body *coppicev1.Body
		switch v := e.GetEvent().(type) {
		case *coppicev1.Event_Created:
			node, body = v.Created.GetNode(), v.Created.GetBody()
		case *coppicev1.Event_Updated:
			node, body = v.Updated.GetNode(), v.Updated.GetBody()
		}
		if node.GetKind() != "Kind" || api.GroupOf(node.GetApiVersion()) != api.Group || body == nil {
			continue
		}
		var k client.Kind
		if json.Unmarshal(body.GetSpec(), &k) == nil {
			n[kindName{k.Group, k.Kind}] = k.Resource()
		}
	}
}

// Resource returns the resource of a kind, and its name in lower case if the log has not
// registered it.
func (n Names) Resource(apiVersion, kind string) string {
	switch r, ok := n[kindName{api.GroupOf(apiVersion), kind}]; {
	case ok:
		return r
	case kind == "Kind" && api.GroupOf(apiVersion) == api.Group:
		return client.KindsResource.String()
	}
	return strings.ToLower(kind)
}
