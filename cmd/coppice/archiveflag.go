package main

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/services/graph/history"
)

// archiveFlag is the flag with the URL of the archive of a graph service.
type archiveFlag struct{ url string }

// noArchive is the value of the flag for no archive.
const noArchive = "none"

// add adds the flag. fallback says what its default is.
func (f *archiveFlag) add(c *cobra.Command, fallback string) {
	c.Flags().StringVar(&f.url, "archive", "", "URL of the archive of the logs: file:///dir, nats://bucket or s3://bucket/prefix?endpoint=URL; credentials of S3 are in the environment; "+noArchive+" for no archive ("+fallback+")")
}

// location parses the URL. ok is false if there is no archive.
func (f *archiveFlag) location() (l archive.Location, ok bool, err error) {
	if f.url == "" || f.url == noArchive {
		return l, false, nil
	}
	l, err = archive.ParseLocation(f.url)
	return l, err == nil, err
}

// openArchive returns the archive at a location, which is opened when it is used first. An
// object store is reached over nc, and created with a number of replicas.
func openArchive(l archive.Location, nc *nats.Conn, replicas int) archive.Store {
	o := stores.Opener{Replicas: replicas, JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(nc) }}
	return o.Lazy(l)
}

// historyFlag is the flag with the size of the cache for states of the past.
type historyFlag struct{ mib uint32 }

func (f *historyFlag) add(c *cobra.Command) {
	c.Flags().Uint32Var(&f.mib, "history-cache", 2048, "MiB on disk for states of the past, which --at reads, in all realms of this process")
}

func (f *historyFlag) limits() history.Limits { return history.Limits{Bytes: int64(f.mib) << 20} }
