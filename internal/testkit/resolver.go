package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// StartIncluding starts n NATS servers with JetStream, which are a cluster if there are several, and whose configurations
// include a file. Each server has a directory of its own for its accounts, in place of dir, which the file names.
func StartIncluding(tb testing.TB, file, dir string, n int) []*server.Server {
	tb.Helper()
	data, err := os.ReadFile(file)
	must.Succeed(tb, err)
	if !strings.Contains(string(data), dir) {
		tb.Fatalf("%s does not name %s", file, dir)
	}
	ports := FreePorts(tb, n)
	routes := make([]string, n)
	for i, port := range ports {
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port)
	}
	servers := make([]*server.Server, n)
	for i, port := range ports {
		opts := &server.Options{
			ServerName: fmt.Sprint("n", i+1), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: tb.TempDir(), MaxPayload: natsd.MaxPayload, AuthTimeout: Timeout.Seconds(), DisableJetStreamBanner: true,
		}
		if n > 1 {
			opts.Cluster = server.ClusterOpts{Name: "including", Host: "127.0.0.1", Port: port}
			opts.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		}
		must.Succeed(tb, opts.ProcessConfigString(strings.ReplaceAll(string(data), dir, filepath.Join(tb.TempDir(), "accounts"))))
		s, err := server.NewServer(opts)
		must.Succeed(tb, err)
		s.Start()
		tb.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers[i] = s
	}
	ctx := Context(tb)
	for _, s := range servers {
		WaitFor(tb, ctx, "the routes of "+s.Name(), func() bool { return s.ReadyForConnections(Timeout) && s.NumRoutes() >= n-1 })
	}
	if n > 1 {
		WaitFor(tb, ctx, "a leader of JetStream", func() bool {
			for _, s := range servers {
				if s.JetStreamIsLeader() {
					return true
				}
			}
			return false
		})
	}
	return servers
}
