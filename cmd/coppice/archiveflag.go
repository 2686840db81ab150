package main

import (
	"context"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
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

// inDirectory returns the location of an archive in a directory.
func inDirectory(dir string) (archive.Location, error) {
	dir, err := filepath.Abs(dir)
	return archive.Location{Scheme: "file", Dir: dir}, err
}

// openArchive returns the archive at a location, which is opened when it is used first. An
// object store is reached over nc, and created with a number of replicas.
func openArchive(l archive.Location, nc *nats.Conn, replicas int) archive.Store {
	o := stores.Opener{Replicas: replicas, JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(nc) }}
	return o.Lazy(l)
}
