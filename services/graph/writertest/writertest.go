// Package writertest runs a writer on a log and a state in memory, for tests of what the writer calls.
package writertest

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Log is a log that accepts every commit and is never read, and a lease that is never lost.
type Log struct{}

// Created implements writer.Log.
func (Log) Created() int64 { return 1 }

// Get implements writer.Log.
func (Log) Get(context.Context, uint64) ([]byte, error) { return nil, errors.New("not asked for") }

// Send implements writer.Log.
func (Log) Send(expected uint64, _ [16]byte, _ []byte) func(context.Context) (uint64, error) {
	return func(context.Context) (uint64, error) { return expected + 1, nil }
}

// Holds implements writer.Lease.
func (Log) Holds() bool { return true }

// Lost implements writer.Lease.
func (Log) Lost() <-chan struct{} { return nil }

// Start runs a writer until the test has ended, and waits until it accepts requests. change may be nil.
func Start(tb testing.TB, change func(*writer.Config)) (*writer.Writer, *state.State) {
	tb.Helper()
	s, err := state.Open("state", state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20})
	must.Succeed(tb, err)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	ready := make(chan struct{})
	c := writer.Config{Realm: "test", State: s, Log: Log{}, Lease: Log{}, MaxPayload: 1 << 20, Ready: func() { close(ready) }}
	if change != nil {
		change(&c)
	}
	w := writer.New(c)
	testkit.Run(tb, w.Run)
	testkit.Receive(tb, testkit.Context(tb), "the writer to begin", ready)
	return w, s
}
