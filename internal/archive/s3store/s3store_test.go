package s3store_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/s3store"
)

var buckets atomic.Int64

// location returns that of an empty archive, in a bucket of its own.
func location(t *testing.T, prefix string) archive.Location {
	t.Helper()
	endpoint := server(t)
	name := fmt.Sprintf("archive-%d", buckets.Add(1))
	bucket(t, endpoint, name)
	l, err := archive.ParseLocation(fmt.Sprintf("s3://%s/%s?endpoint=%s", name, prefix, endpoint))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t *testing.T, l archive.Location) *s3store.Store {
	t.Helper()
	s, err := s3store.Open(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := s.Put(t.Context(), fmt.Sprintf("a/%d", i), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
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

// A connection that ends in the middle of an entry is a failure of the store: the entry does not end there.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	server(t) // sets the credentials
	const size = 1000
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // whether the bucket exists
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, size))
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 08:00:00 GMT")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, size/2)) // the connection is closed then, because the rest is missing
	}))
	t.Cleanup(cut.Close)
	l, err := archive.ParseLocation("s3://archive?region=us-east-1&endpoint=" + cut.URL)
	if err != nil {
		t.Fatal(err)
	}
	in, err := open(t, l).Open(t.Context(), "a/b", 0, size)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(in)
	if len(got) != size/2 || err == nil || errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "a/b: the connection ended 500 bytes early") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}
