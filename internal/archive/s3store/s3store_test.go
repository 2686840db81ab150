package s3store_test

import (
	"fmt"
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
