package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

// The limits of a search of the log. A reply says where the next one continues.
const (
	rowsOfPage      = 50
	searchedCommits = 20_000
	// searchedPositions is for searches for which the server selects commits.
	searchedPositions = 50 * searchedCommits
	searchTime        = 3 * time.Second
	searchRequests    = 200 // for causes
	searchGroups      = 5_000
)

// eventsPage replies with rows of the log, the newest first. The parameters limit and search lower the numbers of rows and
// of positions of the log after which the reply ends.
func (r *realm) eventsPage(ctx context.Context, q *http.Request) (any, error) {
	f, err := eventFilter(q)
	if err != nil {
		return nil, err
	}
	before, err := position(q, "before", "a position of the log")
	if err != nil {
		return nil, err
	}
	limit, err := atMost(q, "limit", "a number of rows", rowsOfPage)
	if err != nil {
		return nil, err
	}
	most := uint64(searchedCommits)
	if f.UID != "" || f.Name != "" {
		most = searchedPositions
	}
	if most, err = atMost(q, "search", "a number of positions of the log", most); err != nil {
		return nil, err
	}
	h, err := r.log(ctx)
	if err != nil {
		return nil, err
	}
	low, high, err := r.bounds(ctx, h, &f)
	if err != nil {
		return nil, err
	}
	if before > 0 {
		high = min(high, before-1)
	}
	s := r.search(h, f)
	s.page.Last = h.Last
	return s.page, s.back(ctx, h.Back(selecting(&f), low, high), int(limit), most)
}

// bounds returns the positions of the log within which a filter selects events.
func (r *realm) bounds(ctx context.Context, h *history.History, f *view.EventFilter) (low, high uint64, err error) {
	low, high = 1, h.Last
	if f.Since != nil {
		if low, err = h.SeekTime(ctx, *f.Since); err != nil {
			return 0, 0, err
		}
	}
	if f.Until != nil {
		behind, err := h.SeekTime(ctx, *f.Until)
		if err != nil {
			return 0, 0, err
		}
		high = behind - 1
	}
	if f.Cause > 0 {
		at, err := r.positionOf(ctx, h, f.Cause)
		if err != nil {
			return 0, 0, err
		}
		low = max(low, at)
	}
	return low, high, nil
}

// positionOf returns the position of an event in the log.
func (r *realm) positionOf(ctx context.Context, h *history.History, revision uint64) (uint64, error) {
	at, err := h.PositionOf(ctx, revision)
	return at, r.notFound(err)
}

// notFound returns an error of a search as that of a page.
func (r *realm) notFound(err error) error {
	var missing *history.MissingError
	if errors.As(err, &missing) {
		return &failure{http.StatusNotFound, view.Failure{
			Reason: string(client.ErrNotFound), Message: missing.Error() + ": neither the log of realm " + r.name + " nor its archive has an event with it, or your user may not read it",
		}}
	}
	return err
}

// search finds rows that a filter selects.
type search struct {
	h       *history.History
	filter  view.EventFilter
	roots   *history.Roots // of commands
	grouper history.Grouper
	marked  []view.EventRow // rows that are no commands
	part    int             // the number of these before the part of the log that is being read
	undated bool            // some of them have no time yet
	newest  time.Time       // of the last commit that was added
	page    *view.Events
}

func (r *realm) search(h *history.History, f view.EventFilter) *search {
	s := &search{h: h, filter: f, roots: r.roots.of(0), page: &view.Events{Rows: []view.EventRow{}, Missing: []view.Missing{}}}
	s.grouper = history.Grouper{Roots: r.roots.of(f.Cause), Match: matching(&s.filter), Actor: f.Actor, Only: f.Cause}
	return s
}

// back reads the log backwards, and completes the page.
func (s *search) back(ctx context.Context, b *history.Back, rows int, most uint64) error {
	deadline := time.Now().Add(searchTime)
	var behind time.Time // of the oldest commit that was read: that behind what is read next
	for most > 0 && len(s.grouper.Rows())+len(s.marked) < rows && s.grouper.Groups() < searchGroups && time.Now().Before(deadline) {
		oldest := time.Time{}
		s.newest = time.Time{}
		s.part = len(s.marked)
		n, err := b.Next(ctx, most, func(e history.Entry) {
			if oldest.IsZero() {
				oldest = e.Time
			}
			s.add(e)
		}, s.lost)
		if err != nil {
			return err
		}
		s.date(s.part, behind)
		s.date(0, s.newest)
		if !oldest.IsZero() {
			behind, s.page.Searched = oldest, &oldest
		}
		if n == 0 {
			break
		}
		most -= min(most, n)
	}
	s.page.Before = b.Before()
	return s.finish(ctx)
}

// add adds what the log has at a position.
func (s *search) add(e history.Entry) {
	if e.Page == nil {
		s.mark(skippedRow(e))
		return
	}
	s.date(s.part, e.Time)
	s.newest = e.Time
	s.grouper.Add(e.Position, e.Page.Events)
	for _, about := range e.Page.Realm() {
		if marks(&s.filter, &about) {
			s.marked = append(s.marked, realmRow(e.Position, about))
		}
	}
}

// lost adds commits that cannot be read.
func (s *search) lost(g history.Gap) { s.mark(lostRow(g)) }

// mark adds a row that is no command, unless a filter is about commands or objects.
func (s *search) mark(row view.EventRow) {
	if about := (view.EventFilter{Since: s.filter.Since, Until: s.filter.Until}); about == s.filter {
		s.marked, s.undated = append(s.marked, row), s.undated || row.Time.IsZero()
	}
}

// date gives the rows from a number on that have no time that of a commit next to them.
func (s *search) date(from int, at time.Time) {
	if !s.undated || at.IsZero() {
		return
	}
	s.undated = false
	for i := range s.marked {
		row := &s.marked[i]
		switch {
		case !row.Time.IsZero():
		case i >= from:
			row.Time, row.Latest = at, at
		default:
			s.undated = true
		}
	}
}

// unsure says what a filter by actor leaves out.
var unsure = view.Missing{
	Part: "events of unknown commands", Why: "the filter by actor leaves out what followed from commands that cannot be read: neither the log nor the archive has them, or your user may not read them",
}

// finish finds the causes that are not known yet, and completes the page.
func (s *search) finish(ctx context.Context) error {
	requests := searchRequests
	if err := s.grouper.Find(ctx, s.h, &requests); err != nil {
		return err
	}
	for _, row := range s.grouper.Rows() {
		if s.filter.Cause > 0 { // the row is that of the command, also among what followed from one of its events
			root, c, err := s.roots.Find(ctx, s.h, row.Root, &requests)
			if err != nil {
				return err
			}
			row.Begins = row.Begins && root == row.Root
			row.Root, row.Command = root, c
		}
		s.page.Rows = append(s.page.Rows, rowOf(row))
	}
	if requests <= 0 {
		s.page.Missing = append(s.page.Missing, view.Missing{Part: "causes", Why: "the events here have more causes in older parts of the log than one search reads; some rows are named after the furthest cause that was found, and filters may leave them out"})
	}
	if s.grouper.Unsure {
		s.page.Missing = append(s.page.Missing, unsure)
	}
	s.date(0, s.newest)
	for _, row := range s.marked {
		if within(&s.filter, row.Time) {
			s.page.Rows = append(s.page.Rows, row)
		}
	}
	slices.SortStableFunc(s.page.Rows, func(a, b view.EventRow) int { return cmp.Compare(b.Last, a.Last) })
	return nil
}
