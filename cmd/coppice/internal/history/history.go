package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// History reads the event log backwards: the last events, and by its revision
// any event that caused one of them.
type History struct {
	Log       client.LogClient
	Resources func(apiVersion, kind string) string
	Last      uint64 // sequence of the last commit that is known of
	pages     map[uint64]*Page
	order     []uint64 // of pages, as they were read
	kept      int      // events in pages
	// MaxKept is the number of events that are kept to find causes among them; 0 for maxKeptEvents. The last commit is kept
	// whatever its size.
	MaxKept int
	// OnRealm, if it is not nil, is called with the id of the realm that each commit has which is read, before it is used.
	OnRealm func(id []byte)
	// recent are the pages in which causes were found last: neighbouring events often have
	// causes in the same commit.
	recent []*Page
	// Skipped are the sequences of messages that are no commits, as they were read,
	// at most MaxSkipped.
	Skipped []uint64
	// Pruned is set when Tail has reached commits that are neither in the log nor in the archive
	// any more. It names their revisions.
	Pruned error
	// Progress is a terminal on which Tail shows how much of the log it has searched; nil for none.
	Progress io.Writer
}

// Page is the events of one commit.
type Page struct {
	first  uint64 // the revision that its first event has, or would have
	Events []client.LogEvent
	realm  []client.LogEvent // about the realm; named after the log, as skipped messages are
}

// Realm returns the events of the commit about the realm.
func (p *Page) Realm() []client.LogEvent { return p.realm }

// Entries returns all events of the commit: those about the realm, and then those about objects.
func (p *Page) Entries() []client.LogEvent {
	if len(p.realm) == 0 {
		return p.Events
	}
	return slices.Concat(p.realm, p.Events)
}

// Limits of the events that are kept in memory, and of the log that is read.
const (
	maxKeptEvents = 1 << 17
	recentPages   = 4
	maxChunk      = 256 // commits that are read at once
	MaxSkipped    = 100
)

// How many commits a command reads back from the end of the log.
const (
	RecentCommits = 5_000   // for events that are optional
	MaxCommits    = 100_000 // for events that the command is for
	// AllCommits is for all events that the log has of an object: the server selects the commits that mention it.
	AllCommits = math.MaxInt
)

// Open returns the history of a log. resources translates kinds to resources.
func Open(ctx context.Context, log client.LogClient, resources func(apiVersion, kind string) string) (*History, error) {
	h := &History{Log: log, Resources: resources, pages: map[uint64]*Page{}}
	var err error
	h.Last, err = log.Last(ctx)
	return h, err
}

// Keep remembers a commit; the oldest that were read are forgotten for it.
func (h *History) Keep(sequence uint64, c *coppicev1.Commit) *Page {
	if p := h.pages[sequence]; p != nil {
		return p
	}
	if h.OnRealm != nil {
		h.OnRealm(c.GetRealmId())
	}
	p := &Page{first: c.GetFirstRevision(), Events: client.Events(c, h.Resources), realm: client.RealmEvents(c)}
	for i := range p.realm {
		p.realm[i].Resource, p.realm[i].Name = logResource, strconv.FormatUint(sequence, 10)
	}
	h.pages[sequence] = p
	h.order = append(h.order, sequence)
	h.kept += len(p.Events) + 1
	most := h.MaxKept
	if most == 0 {
		most = maxKeptEvents
	}
	for h.kept > most && len(h.order) > 1 {
		h.kept -= len(h.pages[h.order[0]].Events) + 1
		delete(h.pages, h.order[0])
		h.order = h.order[1:]
	}
	h.Last = max(h.Last, sequence)
	return p
}

// Apart returns a History of the same log that keeps nothing yet. Both may be used at the same time.
func (h *History) Apart() *History {
	return &History{Log: h.Log, Resources: h.Resources, Last: h.Last, MaxKept: h.MaxKept, OnRealm: h.OnRealm, pages: map[uint64]*Page{}}
}

// Forget releases the commits that are kept. They are read again when something needs them.
func (h *History) Forget() {
	h.pages, h.order, h.kept, h.recent = map[uint64]*Page{}, nil, 0, nil
}

// MissingError says that the event with a revision cannot be read: it was pruned or lost, or a recording does not have it.
type MissingError struct {
	Revision uint64
	// Later: the log ends before it.
	Later bool
}

func (e *MissingError) Error() string { return fmt.Sprintf("revision %d cannot be read", e.Revision) }

// Find returns the event with a revision, nil for revision 0. If neither the log nor the archive has it, the
// error is a MissingError.
func (h *History) Find(ctx context.Context, revision uint64) (*client.LogEvent, error) {
	if revision == 0 {
		return nil, nil
	}
	p, err := h.pageOf(ctx, revision)
	if err != nil {
		return nil, err
	}
	return p.event(revision), nil
}

// pageOf returns the commit that has the event with a revision.
func (h *History) pageOf(ctx context.Context, revision uint64) (*Page, error) {
	for _, p := range h.recent {
		if p.event(revision) != nil {
			return p, nil
		}
	}
	_, p, err := h.readPage(ctx, revision)
	if err != nil {
		return nil, err
	}
	if h.recent = append(h.recent, p); len(h.recent) > recentPages {
		h.recent = slices.Delete(h.recent, 0, 1)
	}
	return p, nil
}

// readPage reads the commit that has the event with a revision.
func (h *History) readPage(ctx context.Context, revision uint64) (position uint64, p *Page, err error) {
	for c, err := range h.Log.Read(ctx, client.FromRevision(revision), client.Limit(1)) {
		if errors.Is(err, client.ErrExpired) {
			return 0, nil, &MissingError{Revision: revision}
		}
		if err != nil {
			return 0, nil, err
		}
		position, p = c.Sequence, h.Keep(c.Sequence, c.Commit)
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	if p == nil || p.event(revision) == nil {
		return 0, nil, &MissingError{Revision: revision, Later: p == nil || position >= h.Last && p.endsBefore(revision)}
	}
	return position, p, nil
}

// endsBefore reports whether all events of the page have lower revisions.
func (p *Page) endsBefore(revision uint64) bool {
	return len(p.Events) == 0 || p.Events[len(p.Events)-1].Revision < revision
}

// event is the event with a revision, nil if it is not on the page.
func (p *Page) event(revision uint64) *client.LogEvent {
	i := sort.Search(len(p.Events), func(i int) bool { return p.Events[i].Revision >= revision })
	if i == len(p.Events) || p.Events[i].Revision != revision {
		return nil
	}
	return &p.Events[i]
}

// Tail returns the last events that match, oldest first. The number of events is bounded by events,
// that of the commits to search by commits. complete reports whether no earlier event matches.
// about selects the commits to read, and must select all that have an event that matches.
func (h *History) Tail(ctx context.Context, events, commits int, about client.LogOptions, match func(*client.LogEvent) bool) (found []client.LogEvent, complete bool, err error) {
	high, chunk, most := h.Last, uint64(4), uint64(maxChunk)
	if len(about.UIDs) > 0 || about.Name != "" { // most commits do not even come here
		chunk, most = 4*maxChunk, 64*maxChunk
	}
	bar := &terminal.Bar{W: h.Progress, Label: "searching the log", Noun: "commit", Total: int64(min(high, uint64(commits))), Now: time.Now, After: time.Second}
	defer bar.Clear()
	bar.Add(0) // begins its time
	for high > 0 && commits > 0 {
		low := high - min(high, chunk, uint64(commits)) + 1
		about.FromSequence, about.ToSequence = low, high
		matching, err := h.chunk(ctx, about, match)
		if errors.Is(err, client.ErrExpired) { // the log begins within these commits, or behind them
			if low == high {
				h.Pruned = err
				break
			}
			chunk = (high - low + 1) / 2
			most = chunk
			continue
		}
		if err != nil {
			return nil, false, err
		}
		for _, e := range slices.Backward(matching) {
			if len(found) == events {
				slices.Reverse(found)
				return found, false, nil
			}
			found = append(found, e)
		}
		commits -= int(high - low + 1)
		bar.Add(int64(high - low + 1))
		high = low - 1
		chunk = min(2*chunk, most)
	}
	slices.Reverse(found)
	return found, high == 0, nil
}

// created is the type of the event that begins an object.
const created = "ObjectCreated"

// maxMarks is the maximum number of marks that Marked reads: a repeated DELETE may add one.
const maxMarks = 100

// Marked returns the event that began the deletion of the terminating object with this metadata: the first of its last
// maxMarks marks, because later ones only change the deletion. It returns nil if none is in the last RecentCommits commits.
func (h *History) Marked(ctx context.Context, m *coppicev1.ObjectMeta) (*client.LogEvent, error) {
	found, _, err := h.Tail(ctx, maxMarks, RecentCommits, client.LogOptions{UIDs: []string{m.GetUid()}}, func(e *client.LogEvent) bool {
		return e.UID == m.GetUid() && e.Revision <= m.GetResourceVersion() && (e.Type == created || e.Type == "DeletionMarked")
	})
	found = sinceCreated(found)
	if len(found) > 0 && found[0].Type == created {
		found = found[1:]
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// sinceCreated returns those of the events with a uid, oldest first, that are about the last object with this uid: an
// import creates an object with the uid of one that is gone.
func sinceCreated(events []client.LogEvent) []client.LogEvent {
	for i, e := range slices.Backward(events) {
		if e.Type == created {
			return events[i:]
		}
	}
	return events
}

// chunk returns the events of some commits that match, and skipped messages that match.
func (h *History) chunk(ctx context.Context, of client.LogOptions, match func(*client.LogEvent) bool) (matching []client.LogEvent, err error) {
	of.Skipped = true
	var before time.Time // when the last commit was made
	for c, err := range h.Log.Read(ctx, of) {
		if err != nil {
			return nil, err
		}
		if c.Commit == nil {
			if e := h.Skip(c, before); match(&e) {
				matching = append(matching, e)
			}
			continue
		}
		before = time.UnixMicro(c.GetTime()).UTC()
		entries := h.Keep(c.Sequence, c.Commit).Entries()
		for i := range entries {
			if match(&entries[i]) {
				matching = append(matching, entries[i])
			}
		}
	}
	return matching, ctx.Err()
}

// logResource is the resource of entries that are about the log or the realm and no object. Their
// name is the sequence of the message.
const logResource = "log"

// MessageSkipped is the type of the entry for a message in the log that is no commit
// of the realm, which graph services skip. It names the log and the sequence, and has
// the time of the commit before, if that is known.
const MessageSkipped = "MessageSkipped"

// Skip remembers a skipped message, and returns the entry for it.
func (h *History) Skip(c client.LogCommit, before time.Time) client.LogEvent {
	if len(h.Skipped) < MaxSkipped && !slices.Contains(h.Skipped, c.Sequence) {
		h.Skipped = append(h.Skipped, c.Sequence)
	}
	h.Last = max(h.Last, c.Sequence)
	return client.LogEvent{Type: MessageSkipped, Time: before, Resource: logResource, Name: strconv.FormatUint(c.Sequence, 10), Detail: c.Skipped}
}

// Ranges spells ascending numbers: "5, 7-9".
func Ranges(list []uint64) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, list[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", list[j])
		}
		i = j + 1
	}
	return b.String()
}
