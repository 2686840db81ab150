package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A service with the version of each kind of build starts.
func TestVersion(t *testing.T) {
	t.Parallel()
	nc := testkit.Conn(t, testkit.NATS(t), "")
	for module, want := range map[string]string{
		"":                                   "0.1.0-dev",
		"(devel)":                            "0.1.0-dev",
		"v1.2.3":                             "1.2.3",
		"v0.0.0-20261126080258-7da37a399c4c": "0.0.0-20261126080258-7da37a399c4c",
		"v0.0.0-20261126080258-7da37a399c4c+dirty": "0.0.0-20261126080258-7da37a399c4c+dirty",
	} {
		got := versionOf(module)
		if got != want {
			t.Errorf("%q is version %s, want %s", module, got, want)
		}
		s, err := micro.AddService(nc, micro.Config{Name: "test", Version: got})
		if err != nil {
			t.Errorf("%q: %v", module, err)
			continue
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// 'coppice version -o json' has what the build has recorded, and nothing that it has not.
func TestBuildVersion(t *testing.T) {
	t.Parallel()
	built := `"goVersion":"` + runtime.Version() + `","platform":"` + runtime.GOOS + "/" + runtime.GOARCH + `"}`
	of := func(revision, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
			{Key: "-trimpath", Value: "true"}, {Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision},
			{Key: "vcs.time", Value: "2026-11-25T14:33:25Z"}, {Key: "vcs.modified", Value: modified},
		}}
	}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a commit":         {of("e5add3c", "false"), `{"version":"1.2.3","commit":"e5add3c","commitTime":"2026-11-25T14:33:25Z","dirty":false,`},
		"changed files":    {of("e5add3c", "true"), `{"version":"1.2.3","commit":"e5add3c","commitTime":"2026-11-25T14:33:25Z","dirty":true,`},
		"without a commit": {&debug.BuildInfo{}, `{"version":"0.1.0-dev",`},
		"nothing":          {nil, `{"version":"0.1.0-dev",`},
	} {
		got, err := json.Marshal(buildOf(c.info))
		must.Succeed(t, err)
		if string(got) != c.want+built {
			t.Errorf("%s: %s, want %s", name, got, c.want+built)
		}
	}
}
