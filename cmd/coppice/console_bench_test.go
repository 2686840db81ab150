package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The size of BenchmarkConsole.
const (
	benchUsers   = 50
	benchTabs    = 4
	benchObjects = 1000
	benchChanges = 100 // each second
	benchTime    = 20 * time.Second
)

// BenchmarkConsole measures what a console with many users costs: each user has tabs with an overview and an object, while
// objects change. The processes are separate, so that each has its CPU time. %core-graph-alone is that of the graph service
// without the console. One iteration takes 20 s.
func BenchmarkConsole(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	nats := consoleBenchServer(b)
	graph := benchService(ctx, b, "graph", "--data", filepath.Join(b.TempDir(), "graph"), "--server", nats.ClientURL(), "--user", "graph", "--password", "p", "--answers-password", "p")
	objects := benchObjectsOf(ctx, b, nats)
	alone := graph.cpu(b)
	benchChange(ctx, b, nats, objects)
	alone = graph.cpu(b) - alone
	console := benchService(ctx, b, "console", "--server", nats.ClientURL(), "--listen", "127.0.0.1:0")

	var messages atomic.Int64
	for i := range benchUsers {
		user := newBrowser(ctx, b, console.url)
		testkit.WaitFor(b, ctx, "the console to accept one more sign-in from this address", func() bool {
			status, _ := user.ask(http.MethodPost, "/api/session", view.SignIn{User: fmt.Sprintf("user-%d", i), Password: "p"}, nil)
			return status == http.StatusOK
		})
		for tab := range benchTabs {
			conn := user.live()
			conn.SetReadLimit(16 << 20)
			user.follow(conn, view.Ask{ID: 1, Realm: "default", View: view.ViewOverview})
			user.follow(conn, view.Ask{ID: 2, Realm: "default", View: view.ViewObject, UID: objects[tab].GetMetadata().GetUid()})
			go count(ctx, conn, &messages)
		}
	}
	testkit.WaitFor(b, ctx, "a watch of each user", func() bool { return graph.metric(ctx, b, "coppice_graph_watches") == benchUsers })
	for b.Loop() {
		before := [2]float64{graph.cpu(b), console.cpu(b)}
		first := messages.Load()
		began := time.Now()
		benchChange(ctx, b, nats, objects)
		seconds := time.Since(began).Seconds()
		b.ReportMetric((graph.cpu(b)-before[0])/seconds*100, "%core-graph")
		b.ReportMetric(alone/benchTime.Seconds()*100, "%core-graph-alone")
		b.ReportMetric((console.cpu(b)-before[1])/seconds*100, "%core-console")
		b.ReportMetric(float64(messages.Load()-first)/seconds/benchUsers/benchTabs, "messages/tab/s")
	}
	b.ReportMetric(graph.metric(ctx, b, "coppice_graph_watches"), "watches")
	b.ReportMetric(console.memory(b)/(1<<20), "MiB-console")
}

// consoleBenchServer is a NATS server with a user for each person.
func consoleBenchServer(b *testing.B) *server.Server {
	b.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: b.TempDir()}
	for _, name := range []string{"graph", "graph-answers", "writer"} {
		o.Users = append(o.Users, &server.User{Username: name, Password: "p"})
	}
	for i := range benchUsers {
		o.Users = append(o.Users, &server.User{Username: fmt.Sprintf("user-%d", i), Password: "p"})
	}
	s, err := server.NewServer(o)
	must.Succeed(b, err)
	s.Start()
	b.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	testkit.WaitFor(b, b.Context(), "the server to accept clients", func() bool { return s.ReadyForConnections(testkit.Timeout) })
	return s
}

func benchClient(b *testing.B, s *server.Server) client.ResourceClient {
	b.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("writer", "p"), nats.CustomInboxPrefix("_INBOX.writer"))
	must.Succeed(b, err)
	b.Cleanup(nc.Close)
	return client.New(nc, client.WithActor("writer")).Resource(client.Resource{Plural: "configmaps"}, "shop")
}

// benchObjectsOf creates the objects.
func benchObjectsOf(ctx context.Context, b *testing.B, s *server.Server) (list []*coppicev1.Object) {
	b.Helper()
	objects := benchClient(b, s)
	for i := range benchObjects {
		o, err := objects.Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "object-" + strconv.Itoa(i)}})
		must.Succeed(b, err)
		list = append(list, o)
	}
	return list
}

// benchChange changes objects at a steady rate.
func benchChange(ctx context.Context, b *testing.B, s *server.Server, list []*coppicev1.Object) {
	b.Helper()
	objects := benchClient(b, s)
	tick := time.NewTicker(time.Second / benchChanges)
	defer tick.Stop()
	for i := range int(benchTime.Seconds()) * benchChanges {
		<-tick.C
		patch := fmt.Sprintf(`{"metadata":{"labels":{"change":"%d"}}}`, time.Now().UnixNano())
		_, err := objects.Patch(ctx, list[i%len(list)].GetMetadata().GetName(), []byte(patch))
		must.Succeed(b, err)
	}
}

// count counts the messages that a tab receives.
func count(ctx context.Context, conn *websocket.Conn, messages *atomic.Int64) {
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		if json.Valid(data) {
			messages.Add(1)
		}
	}
}

// benchProcess is a service in a process of its own.
type benchProcess struct {
	pid     int
	url     string // of a console
	address string // of its metrics
}

func benchService(ctx context.Context, b *testing.B, args ...string) *benchProcess {
	b.Helper()
	port := testkit.FreePorts(b, 1)[0]
	p := &benchProcess{address: "127.0.0.1:" + strconv.Itoa(port)}
	c := exec.CommandContext(ctx, program(b), append(args, "--http", p.address)...)
	out, err := c.StderrPipe()
	must.Succeed(b, err)
	must.Succeed(b, c.Start())
	b.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	p.pid = c.Process.Pid
	urls := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if m := consoleURL.FindStringSubmatch(s.Text()); m != nil {
				urls <- m[1]
			}
		}
	}()
	if args[0] == "console" {
		p.url = testkit.Receive(b, ctx, "the address of the console", urls)
	}
	return p
}

func (p *benchProcess) metric(ctx context.Context, b *testing.B, name string) float64 {
	b.Helper()
	return sumOfMetric(ctx, b, p.address, name)
}

// sumOfMetric is the sum of a metric over its labels, at the HTTP server of a service.
func sumOfMetric(ctx context.Context, tb testing.TB, address, name string) (sum float64) {
	tb.Helper()
	of := &upProcess{t: tb, address: address}
	_, text := of.page(ctx, "/metrics")
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0], name+"{") {
			v, err := strconv.ParseFloat(fields[1], 64)
			must.Succeed(tb, err)
			sum += v
		}
	}
	return sum
}

// cpu is the CPU time of the process, in seconds. Linux counts it in hundredths.
func (p *benchProcess) cpu(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	must.Succeed(b, err)
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	sum := 0.0
	for _, at := range []int{11, 12} { // user and system
		v, err := strconv.ParseFloat(fields[at], 64)
		must.Succeed(b, err)
		sum += v / 100
	}
	return sum
}

// memory is what the process has in memory, in bytes.
func (p *benchProcess) memory(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	must.Succeed(b, err)
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	must.Succeed(b, err)
	return pages * float64(os.Getpagesize())
}
