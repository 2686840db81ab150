package s3store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/s3store"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

var buckets atomic.Int64

// location returns that of an empty archive, in a bucket of its own.
func location(t *testing.T, prefix string) archive.Location {
	t.Helper()
	endpoint := server(t)
	name := fmt.Sprintf("archive-%d", buckets.Add(1))
	bucket(t, endpoint, name)
	l, err := archive.ParseLocation(fmt.Sprintf("s3://%s/%s?endpoint=%s", name, prefix, endpoint))
	must.Succeed(t, err)
	return l
}

func open(t *testing.T, l archive.Location) *s3store.Store {
	t.Helper()
	s, err := s3store.Open(t.Context(), l)
	must.Succeed(t, err)
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"bucket": "", "prefix": "some/where"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archivetest.Run(t, func(t *testing.T) (archive.Store, func() archive.Store) {
				t.Helper()
				l := location(t, prefix)
				return open(t, l), func() archive.Store { return open(t, l) }
			})
		})
	}
}

// Archives with different prefixes share a bucket.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	l := location(t, "one")
	one := open(t, l)
	l.Prefix = "one-more/"
	more := open(t, l)
	for i, s := range []archive.Store{one, more} {
		must.Succeed(t, s.Put(t.Context(), fmt.Sprintf("a/%d", i), strings.NewReader("x"), 1))
	}
	for i, s := range []archive.Store{one, more} {
		for e, err := range s.List(t.Context(), "") {
			if err != nil || e.Name != fmt.Sprintf("a/%d", i) {
				t.Errorf("%s: %+v, %v", s, e, err)
			}
		}
	}
}

func TestMissingBucket(t *testing.T) {
	t.Parallel()
	l := location(t, "")
	l.Bucket = "no-such-bucket"
	if _, err := s3store.Open(t.Context(), l); err == nil || !strings.Contains(err.Error(), "no bucket no-such-bucket") {
		t.Error(err)
	}
}

// answering returns a store whose server answers each GET by respond.
func answering(t *testing.T, respond http.HandlerFunc) *s3store.Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // whether the bucket exists
			return
		}
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 08:00:00 GMT")
		respond(w, r)
	}))
	t.Cleanup(server.Close)
	l, err := archive.ParseLocation("s3://archive?region=us-east-1&endpoint=" + server.URL)
	must.Succeed(t, err)
	return open(t, l)
}

// A connection that ends in the middle of an entry is a failure of the store: the entry does not end there.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	const size = 1000
	s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, size))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, size/2)) // the connection is closed then, because the rest is missing
	})
	in, err := s.Open(t.Context(), "a/b", 0, size)
	must.Succeed(t, err)
	got, err := io.ReadAll(in)
	if len(got) != size/2 || err == nil || errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "a/b: the connection ended 500 bytes early") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// A body that stalls ends the read of an archive.Limited.
func TestBodyStalls(t *testing.T) {
	t.Parallel()
	const stall = 500 * time.Millisecond // in which a server that answers does so
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "01234")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	in, err := archive.Limit(s, stall).Open(t.Context(), "a/b", 0, 10)
	must.Succeed(t, err)
	if got, err := io.ReadAll(in); string(got) != "01234" || !errors.Is(err, archive.ErrStalled) {
		t.Errorf("%q, %v", got, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// A proxy may remove the length of a response. Then the range counts; if there is none, that is no error of the entry.
func TestWithoutLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"bytes 10-19/1000": "", "bytes 10-19/*": "", "bytes 10-14/15": archive.ErrRange.Error(), "bytes 0-9/1000": "instead of bytes 10-19", "": "instead of bytes 10-19",
	} {
		s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			if text != "" {
				w.Header().Set("Content-Range", text)
			}
			w.WriteHeader(http.StatusPartialContent)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "0123456789")
		})
		in, err := s.Open(t.Context(), "a/b", 10, 10)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("range %q: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("range %q: %v", text, err)
		}
		if got, err := io.ReadAll(in); string(got) != "0123456789" || err != nil {
			t.Errorf("range %q: %q, %v", text, got, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A proxy that closes connections while an entry is read is an error of the store, and archive.Limit reads the
// rest again.
func TestProxyCloses(t *testing.T) {
	t.Parallel()
	l := location(t, "")
	want := make([]byte, 32<<20) // more than sockets store
	_, _ = rand.NewChaCha8([32]byte{1}).Read(want)
	must.Succeed(t, open(t, l).Put(t.Context(), "a/b", bytes.NewReader(want), int64(len(want))))
	proxy := testkit.NewProxy(t, strings.TrimPrefix(l.Endpoint, "http://"))
	l.Endpoint = strings.Replace(proxy.URL(), "nats://", "http://", 1)
	s := open(t, l)
	in, err := s.Open(t.Context(), "a/b", 0, int64(len(want)))
	must.Succeed(t, err)
	proxy.Cut()
	if got, err := io.ReadAll(in); err == nil || errors.Is(err, io.ErrUnexpectedEOF) || archive.IsDamaged(err) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_ = in.Close()
	if in, err = archive.Limit(s, testkit.Timeout).Open(t.Context(), "a/b", 0, int64(len(want))); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for err == nil {
		proxy.Cut()
		_, err = io.CopyN(&got, in, int64(len(want)/4))
	}
	if !errors.Is(err, io.EOF) || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}
