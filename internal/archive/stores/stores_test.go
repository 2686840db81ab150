package stores_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func location(t *testing.T, text string) archive.Location {
	t.Helper()
	l, err := archive.ParseLocation(text)
	must.Succeed(t, err)
	return l
}

// An archive that does not exist is an error for Open. Create creates it, and the URL of
// what was opened is the one that was asked for.
func TestOpenAndCreate(t *testing.T) {
	t.Parallel()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{{Name: "archiver", Publish: []string{">"}, Subscribe: []string{">"}}}})
	opener := stores.Opener{JetStream: func(context.Context) (jetstream.JetStream, error) {
		return testkit.JetStream(t, server, "archiver"), nil
	}}
	for _, text := range []string{"file://" + filepath.Join(t.TempDir(), "archive"), "nats://archive"} {
		l := location(t, text)
		if _, err := opener.Open(testkit.Context(t), l); err == nil {
			t.Errorf("%s was opened before it was created", l)
		}
		s, err := opener.Create(testkit.Context(t), l)
		must.Succeed(t, err)
		if s.String() != text {
			t.Errorf("%s calls itself %s", text, s)
		}
		if err := s.Put(testkit.Context(t), "a/b", strings.NewReader("x"), 1); err != nil {
			t.Error(err)
		}
		for _, open := range []func(context.Context, archive.Location) (archive.Store, error){opener.Open, opener.Create} {
			again, err := open(testkit.Context(t), l)
			must.Succeed(t, err)
			if err := again.Put(testkit.Context(t), "a/b", strings.NewReader("y"), 1); !errors.Is(err, archive.ErrExists) {
				t.Errorf("%s: %v", again, err)
			}
		}
	}
}

func TestWithoutConnection(t *testing.T) {
	t.Parallel()
	if _, err := (stores.Opener{}).Open(t.Context(), location(t, "nats://archive")); err == nil || !strings.Contains(err.Error(), "no connection to NATS") {
		t.Error(err)
	}
}

// Without credentials in the environment, the error names the variables.
func TestWithoutCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
		_ = os.Unsetenv(name)
	}
	_, err := (stores.Opener{}).Open(t.Context(), location(t, "s3://bucket?endpoint=http://127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "set AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
}

// The client of S3 is in the programs that open archives, not in the SDK and the services
// that do not.
func TestDependencies(t *testing.T) {
	t.Parallel()
	const s3 = "github.com/minio/minio-go/v7"
	deps := func(packages ...string) []string {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, packages...)...).Output()
		must.Succeed(t, err)
		return strings.Fields(string(out))
	}
	if !slices.Contains(deps("."), s3) {
		t.Errorf("this package does not import %s", s3)
	}
	if slices.Contains(deps("../../../client/...", "../../../services/...", "../../segment"), s3) {
		t.Errorf("the SDK, a service or package segment imports %s", s3)
	}
}
