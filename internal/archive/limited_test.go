package archive_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A store that ends reads early is read again. If it goes on to, that is an error of the store: neither an
// entry that is damaged nor a shorter one.
func TestReadsThatEndEarly(t *testing.T) {
	t.Parallel()
	const always = 1 << 30
	for name, test := range map[string]struct {
		err   error
		times int64
	}{
		"end":            {io.EOF, 3},
		"unexpected end": {io.ErrUnexpectedEOF, 3},
		"reset":          {errors.New("connection reset by peer"), 3},
		"always":         {io.EOF, always},
		"always reset":   {errors.New("connection reset by peer"), always},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, dir := segmenttest.New(20), newStore(t)
			put(t, dir, log, 1, 20, nil)
			e := list(t, dir)[0]
			for what, use := range map[string]func(archive.Store) error{
				"verify": func(s archive.Store) error {
					reports, err := archive.Verify(t.Context(), s, []archive.Entry{e}, nil, func(int64) {})
					problems := reports[0].Problems
					if err == nil && (reports[0].Last.Sequence != 20 || len(problems) > 0) || slices.ContainsFunc(problems, func(p archive.Problem) bool { return p.Kind != archive.ProblemUnread }) {
						t.Errorf("reports %+v", reports)
					}
					return err
				},
				"copy": func(s archive.Store) error {
					to := newStore(t)
					_, err := archive.Copy(t.Context(), to, s, []archive.Entry{e}, nil, func(int64) {})
					if copied := list(t, to); (err == nil) != slices.Equal(copied, []archive.Entry{e}) {
						t.Errorf("%v; copied %v", err, copied)
					}
					return err
				},
				"segment": func(s archive.Store) error {
					r, err := archive.OpenSegment(t.Context(), s, e)
					if err != nil {
						return err
					}
					for _, err := range r.Commits(1) {
						if err != nil {
							return err
						}
					}
					return nil
				},
			} {
				err := use(archive.Limit(&archivetest.Ending{Store: dir, Err: test.err, Times: test.times}, testkit.Timeout))
				switch {
				case test.times < always:
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				case err == nil, archive.IsDamaged(err), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
					t.Errorf("%s: %v", what, err)
				case errors.Is(test.err, io.EOF) && !strings.Contains(err.Error(), "the store ended the read"), !errors.Is(test.err, io.EOF) && !errors.Is(err, test.err):
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// stuck is a store in which one kind of call, or reads, do not return before it is released. It ignores contexts, as
// a file system on a network may.
type stuck struct {
	archivetest.Hooked
	in       string
	released chan struct{}
}

func newStuck(store archive.Store, in string) *stuck {
	s := &stuck{in: in, released: make(chan struct{})}
	s.Store = store
	s.Before = func(_ context.Context, c archivetest.Call) error {
		s.wait(string(c.Op))
		return nil
	}
	s.Reading = func(_ archivetest.Call, in io.ReadCloser) io.ReadCloser { return &stuckReader{in, s} }
	return s
}

func (s *stuck) wait(in string) {
	if in == s.in {
		<-s.released
	}
}

type stuckReader struct {
	io.ReadCloser
	s *stuck
}

func (r *stuckReader) Read(b []byte) (int, error) {
	r.s.wait("read")
	return r.ReadCloser.Read(b)
}

// Each call of a store that hangs ends, after a time or with its context, and says so. When the store
// answers again, calls succeed.
func TestStuck(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, archive.Store) error{
		"put": func(ctx context.Context, s archive.Store) error { return s.Put(ctx, "a/c", strings.NewReader("x"), 1) },
		"open": func(ctx context.Context, s archive.Store) error {
			in, err := s.Open(ctx, "a/b", 0, 1)
			if err == nil {
				err = in.Close()
			}
			return err
		},
		"read": func(ctx context.Context, s archive.Store) error {
			in, err := s.Open(ctx, "a/b", 0, 1)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(in)
			return errors.Join(err, in.Close())
		},
		"list": func(ctx context.Context, s archive.Store) error {
			for _, err := range s.List(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"delete": func(ctx context.Context, s archive.Store) error { return s.Delete(ctx, "a/none") },
	}
	opening := func(ctx context.Context, s archive.Store) error { return s.(*archive.Limited).Opened(ctx) }
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStuck(t, name, call)
		})
	}
	t.Run("opening", func(t *testing.T) {
		t.Parallel()
		testStuck(t, "opening", opening)
	})
}

func testStuck(t *testing.T, name string, call func(context.Context, archive.Store) error) {
	t.Helper()
	store := newStuck(newStore(t), name)
	must.Succeed(t, store.Store.Put(t.Context(), "a/b", strings.NewReader("x"), 1))
	open := func(context.Context) (archive.Store, error) {
		store.wait("opening")
		return store, nil
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := call(ended, archive.NewLimited("file:///slow", testkit.Timeout, open)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	s := archive.NewLimited("file:///slow", 10*time.Millisecond, open)
	for range 6 { // more than may hang
		if err := call(t.Context(), s); !errors.Is(err, archive.ErrStalled) || !strings.Contains(err.Error(), "file:///slow") {
			t.Errorf("%v", err)
		}
	}
	close(store.released)
	testkit.WaitFor(t, testkit.Context(t), "the store to answer again", func() bool {
		err := call(t.Context(), s)
		return err == nil || name == "put" && errors.Is(err, archive.ErrExists)
	})
}
