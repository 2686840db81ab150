package lookup

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Left says how many objects a terminating namespace or kind still contains.
func Left(n *coppicev1.GraphNode) string {
	if n.GetContents() >= maxCounted {
		return "1000 objects or more left"
	}
	return terminal.Count(int(n.GetContents()), "object") + " left"
}

// Remainder is an object that a terminating namespace or kind still contains.
type Remainder struct {
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid"`
	BlockedBy string `json:"blockedBy"`
}

// name names the object, with its namespace unless that is the container n.
func (r Remainder) name(n *coppicev1.GraphNode) string {
	if n.GetResource() == "namespaces" {
		return r.Object
	}
	return terminal.WithNamespace(r.Object, r.Namespace)
}

// Remaining returns the first objects that a terminating namespace or kind still contains, at most terminal.Listed, with
// what each waits for. It returns none if they cannot be read.
func (c *Consumers) Remaining(ctx context.Context, n *coppicev1.GraphNode) (list []Remainder) {
	if len(n.GetRemaining()) == 0 {
		return nil
	}
	var nodes []*coppicev1.GraphNode
	ok, err := c.r.Optional(ctx, AboutContents, func(ctx context.Context) error {
		reply, err := c.r.Anything().ResolveUIDs(ctx, n.GetRemaining()[:min(len(n.GetRemaining()), terminal.Listed)])
		nodes = reply.GetNodes()
		return err
	})
	if !ok {
		if err != nil && ctx.Err() == nil {
			c.r.Missing(AboutContents, err)
		}
		return nil
	}
	c.read(ctx, nodes)
	for _, d := range nodes {
		m := d.GetObject().GetMetadata()
		by := "about to be deleted"
		switch {
		case m.GetDeletionTimestamp() != nil:
			by = cmp.Or(c.BlockedBy(ctx, d), "about to be removed")
		case m.GetProtection() != nil:
			by = "protected from deletion"
		}
		list = append(list, Remainder{Object: tree.KeyOfNode(d), Namespace: m.GetNamespace(), UID: tree.UIDOf(d), BlockedBy: by})
	}
	return list
}

// maxInSentence is how many remaining objects a sentence names.
const maxInSentence = 3

// LeftText is Left with the first remaining objects, and what they wait for.
func LeftText(n *coppicev1.GraphNode, list []Remainder) string {
	var names []string
	for _, r := range list[:min(len(list), maxInSentence)] {
		names = append(names, r.name(n)+" "+r.BlockedBy)
	}
	said := Left(n) + terminal.Prefixed(": ", strings.Join(names, ", "))
	if more := int(n.GetContents()) - len(names); more > 0 && len(names) > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	return said
}

// RemainingRows has a row for each of the first remaining objects, and one with the count of the others.
func RemainingRows(n *coppicev1.GraphNode, list []Remainder) (rows [][]string) {
	for _, r := range list {
		rows = append(rows, []string{r.name(n), r.BlockedBy})
	}
	switch more := int(n.GetContents()) - len(list); {
	case len(list) == 0 || more <= 0:
	case n.GetContents() >= maxCounted:
		rows = append(rows, []string{fmt.Sprintf("and %d or more", more)})
	default:
		rows = append(rows, []string{fmt.Sprintf("and %d more", more)})
	}
	return rows
}

// maxCounted is where the server stops to count the contents of a namespace or kind.
const maxCounted = 1000
