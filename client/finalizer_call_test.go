package client

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/internal/worker"
)

// A call of a later version, with fields that this one does not know, is understood; one
// that is no JSON is an error that retries cannot fix.
func TestCalledFor(t *testing.T) {
	t.Parallel()
	m := &worker.Message{Data: []byte(`{"resource":"deployments.apps","later":{"a":1},
		"object":{"apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop","uid":"u-1","later":true,"labels":{"a":"b"}},"later":1}}`)}
	want := identity{Namespace: "shop", Name: "web", UID: "u-1", resource: Resource{Group: "apps", Plural: "deployments"}}
	if got, err := calledFor(m); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := calledFor(&worker.Message{Data: []byte("\n\x08pods")}); err == nil {
		t.Error("a message that is not JSON was accepted")
	}
}

// A call of a newer format is refused, and stays in its queue: it is not a permanent error.
func TestCallOfNewerFormat(t *testing.T) {
	t.Parallel()
	m := &worker.Message{Subject: "coppice.default.finalize.x", Data: []byte(`{"resource":"pods","object":{"metadata":{"name":"web"}},"format":2}`)}
	_, err := calledFor(m)
	var newer *worker.FormatError
	if !errors.As(err, &newer) || newer.Format != 2 || worker.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
	m.Data = []byte(`{"resource":"pods","object":{"metadata":{"name":"web"}},"format":1}`)
	if _, err := calledFor(m); err != nil {
		t.Error(err)
	}
}
