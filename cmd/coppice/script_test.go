package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for noon

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
	"github.com/coppice-gc/coppice/services/graph/tail"
	"github.com/coppice-gc/coppice/services/scanner"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "coppice" {
		os.Exit(worker.Run(Main))
	}
	testkit.ManyAtOnce()
	testkit.AvoidDefaultPorts()
	testscript.Main(m, map[string]func(){
		"finalizer": func() { os.Exit(finalizerMain(os.Args[1:])) },
		"agent":     func() { os.Exit(agentMain(os.Args[1])) },

		"importer":    func() { os.Exit(importerMain(os.Args[1])) },
		"status":      func() { os.Exit(statusMain(os.Args[1])) },
		"initializer": func() { os.Exit(initializerMain(os.Args[1], os.Args[2:])) },
	})
}

// finalizerMain answers the calls of a finalizer until it is interrupted: with
// success, or, with -fail, with an error that no later attempt cures, or, with -refuse, with
// an error after which it tries again a minute later.
func finalizerMain(args []string) int {
	fail, refuse := args[0] == "-fail", args[0] == "-refuse"
	if fail || refuse {
		args = args[1:]
	}
	return connected(func(ctx context.Context, nc *nats.Conn) error {
		c := client.New(nc, client.WithActor("bucket-controller"), client.WithRealm(cmp.Or(os.Getenv("COPPICE_REALM"), bus.DefaultRealm)))
		return c.RunFinalizer(ctx, args[0], func(_ context.Context, call *client.Call) error {
			if fail {
				return client.Permanent(fmt.Errorf("no bucket for %s", call.Object.GetMetadata().GetName()))
			}
			if refuse {
				return fmt.Errorf("the bucket of %s is not empty", call.Object.GetMetadata().GetName())
			}
			return nil
		}, client.ParkAfter(1), client.Backoff{Min: time.Minute, Max: time.Minute})
	})
}

// agentMain ends objects of a resource at once, until it is interrupted.
func agentMain(resource string) int {
	return connected(func(ctx context.Context, nc *nats.Conn) error {
		c := client.New(nc, client.WithActor("agent"))
		return c.RunAgent(ctx, client.ParseResource(resource), func(context.Context, *client.Termination) error { return nil })
	})
}

// importerMain imports a ConfigMap that was being deleted, orphaning its
// dependents, and leaves its session open: there may be more to come.
func importerMain(name string) int {
	return connected(func(ctx context.Context, nc *nats.Conn) error {
		configMaps := client.New(nc, client.WithActor("importer")).Resource(client.Resource{Plural: "configmaps"}, "default")
		results, err := configMaps.ImportBatch(ctx, "unfinished", []*coppicev1.Object{{
			ApiVersion: "v1", Kind: "ConfigMap",
			Metadata: &coppicev1.ObjectMeta{Name: name, Uid: "uid-of-" + name, Finalizers: []string{"orphan"}, DeletionTimestamp: timestamppb.Now()},
		}})
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}

// initializerMain does what the first pending initializer of a pod does: it
// removes itself, or says why it failed.
func initializerMain(name string, failure []string) int {
	return connected(func(ctx context.Context, nc *nats.Conn) error {
		pods := client.New(nc, client.WithActor("vaccine")).Resource(client.Resource{Plural: "pods"}, "default")
		o, err := pods.Get(ctx, name, client.IncludeUninitialized(true))
		if err != nil {
			return err
		}
		in := o.GetMetadata().GetInitializers()
		in.Pending = in.GetPending()[1:]
		if len(failure) > 0 {
			in.Result = &coppicev1.Status{Status: "Failure", Message: failure[0]}
		}
		_, err = pods.Update(ctx, o)
		return err
	})
}

// statusMain sets the status of a pod, as the program that runs it does.
func statusMain(name string) int {
	return connected(func(ctx context.Context, nc *nats.Conn) error {
		pods := client.New(nc, client.WithActor("kubelet")).Resource(client.Resource{Plural: "pods"}, "default")
		o, err := pods.Get(ctx, name)
		if err != nil {
			return err
		}
		o.Status = []byte(`{"phase":"Running"}`)
		_, err = pods.UpdateStatus(ctx, o)
		return err
	})
}

func connected(do func(context.Context, *nats.Conn) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.Timeout(testkit.Timeout))
	if err == nil {
		defer nc.Close()
		err = do(ctx, nc)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var recordTo = flag.String("record", "", "directory into which the log of each script's realm is recorded at its end: see test/formats")

// record records the log of the realm default, for test/formats.
func (s *stack) record(ts string) error {
	if *recordTo == "" || s.running == nil {
		return nil
	}
	var out strings.Builder
	args := []string{"record", "--out", filepath.Join(*recordTo, ts+".segment"), "--realm", cmp.Or(os.Getenv("RECORD_REALM"), bus.DefaultRealm), "--server", s.running.Server().URL()}
	if code := Main(args, strings.NewReader(""), &out, &out); code != 0 {
		return fmt.Errorf("record: %s", out.String())
	}
	return nil
}

// stack is what a script has for itself. NATS_URL says where it is, DATA where
// it keeps its data.
type stack struct {
	dir     string
	coppice string // the path of the program
	running *allinone.Stack
	worker  *worker.Worker
	// names are the variables that the worker gets, also without a value if they are set at first.
	names []string
	set   map[string]bool
	// acceptLoss has the next start accept the loss of the newest commits of every realm.
	acceptLoss bool
}

type stackKey struct{}

func (s *stack) start(setenv func(key, value string)) error {
	store, err := archiveIn(s.dir)
	if err != nil {
		return err
	}
	realms, losses := []string{bus.DefaultRealm, "other"}, map[string]uint64{}
	for _, realm := range realms {
		if s.acceptLoss {
			mark, err := tail.Read(tail.File(filepath.Join(s.dir, "graph"), realm))
			if err != nil {
				return err
			}
			losses[realm] = mark.Sequence
		}
	}
	running, err := allinone.Start(context.Background(), allinone.Config{
		Dir: s.dir, Port: -1, Realms: realms,
		Graph: func(c *graph.Config) {
			c.Archive = store
			c.LeaseTTL, c.PlanTime = testkit.Timeout, testkit.Timeout // a busy machine must cost neither the writer its lease nor a plan its time
			c.AcceptLoss = losses
			// The scripts compare warnings, and the machine's disk may be almost full.
			c.Disk = func(string) (vfs.DiskUsage, error) {
				return vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}, nil
			}
		},
		Scanner: func(c *scanner.Config) { c.PolicyInterval = 200 * time.Millisecond },
	})
	if err != nil {
		return err
	}
	s.running = running
	setenv("NATS_URL", running.Server().URL())
	for _, role := range []string{bus.RoleReader, bus.RoleApplication, bus.RoleGraph} {
		setenv(role, running.Server().Password(role))
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	return running.Await(ctx)
}

func (s *stack) stop() error {
	if s.running == nil {
		return nil
	}
	err := s.running.Stop()
	s.running = nil
	return err
}

func TestScripts(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("../../examples")
	must.Succeed(t, err)
	coppiceProgram := program(t)
	later, err := variables("testdata/script")
	must.Succeed(t, err)
	logs := &audited{}
	t.Cleanup(func() { logs.check(t) })
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			s := &stack{dir: filepath.Join(env.WorkDir, ".data"), coppice: coppiceProgram}
			env.Values[stackKey{}] = s
			for _, v := range [][2]string{
				{"PATH", filepath.Dir(coppiceProgram) + string(filepath.ListSeparator) + env.Getenv("PATH")},
				{"DATA", s.dir}, {"EXAMPLES", examples}, {"COPPICE_ACTOR", "ana"}, {"TZ", noon(time.Now())}, {"HOME", env.WorkDir},
				{"NATS_URL", ""}, {"NATS_CONTEXT", ""}, {"NATS_USER", ""}, {"NATS_PASSWORD", ""}, {"NATS_TIMEOUT", testkit.Timeout.String()}, {"COPPICE_REALM", ""}, {"COPPICE_HTTP", "127.0.0.1:0"},
				{"GORACE", "atexit_sleep_ms=0"}, // a second for each command, under the race detector
			} {
				env.Setenv(v[0], v[1])
			}
			s.names, s.set = slices.Clone(later), map[string]bool{}
			for _, v := range env.Vars {
				name, _, _ := strings.Cut(v, "=")
				s.names, s.set[name] = append(s.names, name), true
			}
			env.Defer(func() {
				if s.worker == nil {
					return
				}
				if err := s.worker.Stop(); err != nil {
					env.T().Fatal(err)
				}
			})
			env.Defer(func() {
				if err := s.record(strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")); err != nil {
					env.T().Fatal(err)
				}
				if err := logs.read(s); err != nil {
					env.T().Log(err)
					env.T().FailNow()
				}
				if err := s.stop(); err != nil {
					env.T().Log(err)
				}
			})
			return s.start(env.Setenv)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"coppice": coppice, "exits": exits, "await": await, "limited": limited, "stack": stackCommand, "republish": republish, "quiet": quiet, "cycles": cycles, "manypods": manyPods, "foreign": foreign,
			"malform": malform, "segment": archiveSegment, "snapshot": archiveSnapshot, "archivelog": archiveLog,
		},
	})
}

// noon is a time zone where it is between noon and one o'clock. Times of another day are
// printed with their dates, and no script runs past midnight there.
func noon(now time.Time) string { return fmt.Sprintf("Etc/GMT%+d", now.UTC().Hour()-12) }

// quiet checks that the last program has written nothing to its standard error but what services
// log on a busy machine.
func quiet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: quiet")
	}
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		if !testkit.SlowLine.MatchString(line) {
			ts.Fatalf("it says %q", line)
		}
	}
}

// stackCommand stops the script's services and server, or starts them again, possibly on the
// data in another directory, with the archive in it, or accepting the loss of commits.
func stackCommand(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(stackKey{}).(*stack)
	switch {
	case !neg && len(args) == 1 && args[0] == "stop":
		ts.Check(s.stop())
	case !neg && len(args) == 2 && args[0] == "start" && args[1] == "--accept-loss":
		s.acceptLoss = true
		ts.Check(s.start(ts.Setenv))
		s.acceptLoss = false
	case !neg && len(args) == 2 && args[0] == "start":
		s.dir = ts.MkAbs(args[1])
		ts.Check(s.start(ts.Setenv))
	case !neg && len(args) == 1 && args[0] == "start":
		ts.Check(s.start(ts.Setenv))
	default:
		ts.Fatalf("usage: stack stop | stack start [dir | --accept-loss]")
	}
}

// republish has everything published again that is pending, which the scanner does of
// pending work for half a minute.
func republish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: republish")
	}
	nc, err := ts.Value(stackKey{}).(*stack).running.Conn(bus.RoleScanner)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	ts.Check(rpc.Retry(ctx, testkit.Timeout, func(ctx context.Context) error {
		return rpc.Call(ctx, nc, bus.InternalSubject(bus.DefaultRealm, bus.OpRepublish), nil, &coppicev1.RepublishRequest{}, &coppicev1.RepublishReply{})
	}))
}

// cycles has unreachable cycles searched for, as the scanner does after a walk.
func cycles(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: cycles")
	}
	nc, err := ts.Value(stackKey{}).(*stack).running.Conn(bus.RoleScanner)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	ts.Check(rpc.Retry(ctx, testkit.Timeout, func(ctx context.Context) error {
		return rpc.Call(ctx, nc, bus.InternalSubject(bus.DefaultRealm, bus.OpCycles), nil, &coppicev1.CyclesRequest{}, &coppicev1.CyclesReply{})
	}))
}

// malform makes the object with a label, or another text, unreadable in the state of the stopped
// stack: malform needle.
func malform(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: malform text")
	}
	ts.Check(statetest.Malform(filepath.Join(ts.Value(stackKey{}).(*stack).dir, "graph", bus.DefaultRealm), args[0]))
}

// manyPods writes manifests of a ReplicaSet and of pods that it owns: manypods
// 12000 file.
func manyPods(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: manypods count file")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"many","namespace":"shop","uid":"rs-many"}}`)
	for i := range n {
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"many-%d","namespace":"shop","uid":"pod-%d",`+
			`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"many","uid":"rs-many","controller":true,"blockOwnerDeletion":true}]}}`+"\n", i, i)
	}
	ts.Check(w.Flush())
	ts.Check(f.Close())
}

// foreign puts a message into the log that is no commit, as a user who may publish to
// its subject could.
func foreign(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: foreign message")
	}
	nc, err := ts.Value(stackKey{}).(*stack).running.Conn(bus.RoleGraph)
	ts.Check(err)
	js, err := jetstream.New(nc)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	ack, err := js.Publish(ctx, bus.LogSubject(bus.DefaultRealm), []byte(args[0]))
	ts.Check(err)
	ts.Setenv("SEQUENCE", strconv.FormatUint(ack.Sequence, 10))
}
