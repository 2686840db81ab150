package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Each benchmark checks what came of it, and leaves nothing behind; it is small here.
func TestOne(t *testing.T) {
	t.Parallel()
	ctx, dir, coppice, profiles := testkit.Context(t), t.TempDir(), filepath.Join(t.TempDir(), "coppice"), t.TempDir()
	must.Succeed(t, build(ctx, coppice))
	t.Cleanup(func() { // when all have run
		for dir, want := range map[string]int{dir: 0, profiles: 4} {
			if files, err := os.ReadDir(dir); err != nil || len(files) != want {
				t.Errorf("%s has %d files, want %d (%v)", dir, len(files), want, err)
			}
		}
	})
	for _, c := range []struct{ args, want string }{
		{"scan --objects 1100", `"name":"scan","objects":1100,.*"commits":\d,`},
		{"references --objects 5 --references 50", `"name":"references, 50 absent owners each","objects":5,.*"longest_wait_ms":`},
		{"replay --events 2000 --profile " + profiles, `"objects":2\d\d\d,.*"commits":\d,.*"commits_replayed":[1-9]`},
		{"bootstrap --objects 1100", `"name":"bootstrap","objects":2\d\d\d,.*"replay_seconds":[\d.]+,"replay_to_bootstrap":[\d.]+,"snapshot_bytes":[1-9]\d*,"snapshot_seconds":[\d.]+,"stale_seconds":`},
		{"bootstrap --created --objects 1100", `"name":"bootstrap","objects":1\d\d\d,`},
		{"archive --objects 1100 --rounds 1", `"cascade_with_to_without":[\d.]+,.*"with_to_without":`},
		{
			"retention --time 1s --objects 4000 --log-retention 64MiB --archive-retention 64MiB",
			`"name":"retention",.*"commits_that_can_be_read":[\d.]+,"disk_to_settings":[\d.]+,"most_bytes_on_disk":[1-9]\d*,"replica_seconds":`,
		},
		{"cluster --objects 300 --rounds 1", `"objects":300,.*"cascade_to_one_server":[\d.]+,.*"to_one_server":`},
		{"restart --objects 1100", `"processes":2,.*"seconds_after_kill":[\d.]+,"seconds_after_stop":`},
		{"memory --objects 1100", `"peak_rss_bytes":[1-9]`},
		{"realms --realms 3 --idle 100ms", `"objects":3,.*"peak_rss_bytes":[1-9].*"idle_percent_of_a_core":[\d.]+,"idle_resident_MiB":[1-9]`},
	} {
		t.Run(strings.Fields(c.args)[0], func(t *testing.T) {
			t.Parallel()
			out, err := runOne(t, c.args+" -o json --dir "+dir+" --coppice "+coppice)
			if err != nil || !regexp.MustCompile(c.want).MatchString(out) {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}

// A benchmark with flags that it cannot use does not run.
func TestOneRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"scan --server nats://127.0.0.1":   "unknown flag: --server",
		"memory -o yaml":                   `--output "yaml": choose table or json`,
		"memory --objects 0":               "--objects 0: at least 1 is needed",
		"bootstrap --objects 0":            "--objects 0: at least 1 is needed",
		"realms --realms 0":                "--realms 0: at least 1 is needed",
		"realms --idle 0s":                 "--idle 0s: more than 0 is needed",
		"failover --lease 0s":              "--lease 0s: more than 0 is needed",
		"retention --log-retention 1h":     `--log-retention "1h": give a size such as 256MiB`,
		"retention --archive-retention 1x": `--archive-retention "1x": give a size such as 256MiB`,
		"cascade":                          `unknown command "cascade" for "one"`,
	} {
		if out, err := runOne(t, args); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s; it printed %q", args, err, want, out)
		}
	}
}

// runOne runs a benchmark, and returns what it printed.
func runOne(t *testing.T, args string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := oneCommand()
	c.SetArgs(strings.Fields(args))
	c.SetOut(&out)
	err := c.ExecuteContext(testkit.Context(t))
	return out.String(), err
}
