package natsd_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A stream without the checksum of its configuration, as after a kill while it was created, is there after the next
// start, with its messages, and after all later ones. One whose checksum differs, or whose configuration is not
// complete, is left as it is.
func TestMissingChecksum(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(dir string) error
		gone   bool
	}{
		"missing": {damage: func(dir string) error { return os.Remove(filepath.Join(dir, "meta.sum")) }},
		"differs": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "meta.sum"), []byte("0123456789abcdef"), 0o600)
		}, true},
		"incomplete": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "meta.sum")), os.Truncate(filepath.Join(dir, "meta.inf"), 20))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, dir := testkit.Context(t), filepath.Join(t.TempDir(), "da[ta")
			during := func(do func(js jetstream.JetStream) error) {
				t.Helper()
				s, err := natsd.Start(natsd.Config{Dir: dir, Port: -1, Roles: []bus.Role{bus.GraphRole(bus.DefaultRealm)}})
				must.Succeed(t, err)
				nc, err := nats.Connect("", s.Options(bus.RoleGraph)...)
				must.Succeed(t, err)
				js, err := jetstream.New(nc)
				if err == nil {
					err = do(js)
				}
				nc.Close()
				must.Succeed(t, errors.Join(err, s.Shutdown()))
			}
			var before *jetstream.StreamInfo
			during(func(js jetstream.JetStream) error {
				s, err := js.CreateStream(ctx, bus.LogConfig(bus.DefaultRealm, 1))
				if err != nil {
					return err
				}
				if _, err := js.Publish(ctx, bus.LogSubject(bus.DefaultRealm), []byte("a message")); err != nil {
					return err
				}
				before, err = s.Info(ctx)
				return err
			})
			streams := filepath.Join(dir, "jetstream", bus.CoreAccount, "streams")
			must.Succeed(t, test.damage(filepath.Join(streams, bus.LogStream(bus.DefaultRealm))))
			if err := os.WriteFile(filepath.Join(streams, ".DS_Store"), nil, 0o600); err != nil { // as file managers leave
				t.Fatal(err)
			}
			for range 2 {
				during(func(js jetstream.JetStream) error {
					s, err := js.Stream(ctx, bus.LogStream(bus.DefaultRealm))
					if test.gone {
						if !errors.Is(err, jetstream.ErrStreamNotFound) {
							t.Errorf("the stream: %v", err)
						}
						return nil
					}
					if err != nil {
						return err
					}
					if i := s.CachedInfo(); !i.Created.Equal(before.Created) || i.State.Msgs != before.State.Msgs {
						t.Errorf("the stream is %+v, and was %+v", i, before)
					}
					return nil
				})
			}
		})
	}
}
