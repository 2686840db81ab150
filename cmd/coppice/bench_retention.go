package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// retentionFlags adds the flags of `coppice bench retention`.
func retentionFlags(f *pflag.FlagSet) func() (bench.Benchmark, error) {
	var b bench.Retention
	var log, kept, url string
	f.DurationVar(&b.Time, "time", 30*time.Second, "how long objects are written")
	f.IntVar(&b.Objects, "objects", 200000, "maximum number of objects that exist at a time")
	f.StringVar(&log, "log-retention", "256MiB", "size of the log")
	f.StringVar(&kept, "archive-retention", "512MiB", "size of the archive")
	f.StringVar(&url, "archive", "", "URL of the archive, which must be empty: nats://bucket, or s3://bucket/prefix?endpoint=URL; by default a temporary directory")
	return func() (bench.Benchmark, error) {
		for _, r := range []struct {
			flag, text string
			to         *int64
		}{{"--log-retention", log, &b.Log}, {"--archive-retention", kept, &b.Archive}} {
			keep, err := lifecycle.ParseRetention(r.text)
			if err != nil || keep.Bytes == 0 || keep.Age > 0 {
				return nil, fmt.Errorf("%s %q: give a size such as 256MiB", r.flag, r.text)
			}
			*r.to = keep.Bytes
		}
		b.Open = func(nc *nats.Conn, dir string) (archive.Store, error) {
			l, err := archive.InDirectory(filepath.Join(dir, "archive"))
			if url != "" {
				l, err = archive.ParseLocation(url)
			}
			return openArchive(l, nc, 1), err
		}
		return b, atLeastOne(number{"--objects", b.Objects})
	}
}
