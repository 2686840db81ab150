package graph

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/registry"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/warn"
	"github.com/coppice-gc/coppice/services/graph/watch"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Config configures a Service. Required fields are marked; a zero value of the others
// selects the default that is named.
type Config struct {
	// Conn is the connection to the log, the streams and the leases, under the role
	// bus.RoleGraph. Required. Its reconnect buffer must be off, so that a publication
	// without a connection fails.
	Conn *nats.Conn
	// Answers is the connection that receives requests and sends replies, under the role
	// bus.RoleAnswers. Required. It must not be Conn: clients choose the subjects of
	// replies, so this connection must have no other permission to publish. See package
	// api.
	Answers *nats.Conn
	// AnyActor lets clients without an account of their own, and those of the account bus.LocalUser, name any
	// actor. It is safe only if all clients are the same user, as in `coppice up`.
	AnyActor bool
	// Access is the users file; nil for none.
	Access *access.Current
	// Actors returns the actor that has an account of NATS. Nil: each account has the name of its actor. With accounts
	// by JWT the name of an account is its public key.
	Actors func(account string) (actor string, ok bool)
	// Realms are added to the list of realms when the service starts, unless they were
	// deleted; bus.DefaultRealm. The service serves all realms of the list.
	Realms []string
	// Dir is the directory of the states, with a subdirectory for each realm. Required.
	Dir string
	// DataDir is the data directory of `coppice up`, which has the log and the secret too, so that errors
	// advise what helps there; empty for a graph service that runs by itself.
	DataDir string
	// Secrets are the secrets of the installation, which authenticate the logs.
	// Required.
	Secrets secret.Secrets
	// Replicas is the number of servers that store each stream; 1.
	Replicas int
	// Instance is a name of this process for operators; the host and the process id.
	Instance string
	Version  string
	State    state.Config
	// LeaseTTL is the time after which another process may take over from a writer that
	// does not renew its lease; lease.DefaultTTL.
	LeaseTTL time.Duration
	// OutlastFullDisk: if the state of a realm cannot be written because the disk is full,
	// try again until there is room. Otherwise Run ends if this happens to all realms.
	OutlastFullDisk bool
	// AcceptLoss has the realms that start although their log has lost commits, each with the
	// sequence that the error of the refused start names. Any other loss still prevents the
	// start.
	AcceptLoss map[string]uint64
	// Restored has the realms whose log was restored from a backup, each with the sequence of the last message of the
	// stream when it was restored. Unless a commit behind it has recorded that, the first commit of this service does, and
	// leaves out writer.RestoredAhead revisions.
	Restored map[string]uint64
	// CheckLog is the time between two comparisons of a log's stream with what it must have.
	// After each, up to 4 MiB of the log are read again; 5 s.
	CheckLog time.Duration
	// ScrubLog is the time between two times that the whole log is read again, on a cluster the
	// copy of each NATS server; 24 h.
	ScrubLog time.Duration
	// Archive has segments and snapshots of the realms, below the realm id of each; nil for
	// none. It may be unreachable for a while: see stores.Opener.Lazy. Its calls must end, as those
	// of an archive.Limited. One graph service of each realm writes it, within ArchiveLimits: see
	// package archiver.
	Archive       archive.Store
	ArchiveLimits archiver.Limits
	// Past bounds the states of the past that are kept for readers; see past.Limits.
	Past past.Limits
	// ArchiveRetention bounds what Archive has of each realm that has no setting
	// archiveRetention; nothing is deleted by default.
	ArchiveRetention lifecycle.Retention
	// Heartbeat is the maximum time between two batches of a watch; watch.DefaultHeartbeat.
	Heartbeat time.Duration
	// ReplyTime is the maximum duration of a streamed reply, after which the client
	// continues with another request; 5 min for watches, 1 min for readers of the log and
	// of warnings.
	ReplyTime time.Duration
	// Watch bounds the watches of a realm, and the changes that are kept for them. All realms
	// together have twice as many: see watch.Process.
	Watch watch.Limits
	// StuckAfter is the time after which a warning is published for a finalizer that still
	// blocks; 10 minutes.
	StuckAfter time.Duration
	// CallLimits bound the calls of finalizers and agents that wait in their
	// stream; propagator.DefaultLimits.
	CallLimits propagator.Limits
	// CrowdedAfter is the time after which a warning is published for an owner whose
	// foreground deletion cannot complete, because unknown owners keep too many of its
	// dependents; 1 minute.
	CrowdedAfter time.Duration
	// QueueBudget bounds the bytes of the requests that wait for the writers of all realms;
	// writer.DefaultBudget. Each realm has bounds of its own.
	QueueBudget *writer.Budget
	// PlanLimit and PlanTime bound the plan that the writer computes again for a DELETE
	// that names one: its objects and the time; 20,000 and 250 ms.
	PlanLimit int
	PlanTime  time.Duration
	// Now is the wall clock; time.Now. While it differs by more than MaxClockSkew from the
	// NATS server's time, this process does not write; clock.DefaultLimit.
	Now          func() time.Time
	MaxClockSkew time.Duration
	Log          *slog.Logger
	Registry     prometheus.Registerer
	// TracerProvider records spans of requests, commits and messages; nil for none.
	TracerProvider trace.TracerProvider
	// Failpoint is called at the steps that packages writer, propagator and archiver name, and
	// before the streams of a realm are deleted.
	Failpoint func(step string)
	// Disk returns what the disk of a directory has; by default the operating system says it.
	Disk func(dir string) (vfs.DiskUsage, error)

	// ID identifies Dir and any copy of it. New sets it to the one that is stored in Dir.
	ID string

	measure time.Duration // measureInterval; another one in tests
}

// Service is the graph service.
type Service struct {
	c         Config
	js        jetstream.JetStream
	clock     *clock.Clock
	metrics   *allMetrics
	dropped   *dropped
	registry  *registry.Registry
	member    *lease.Member
	watches   *watch.Process             // bounds those of all realms
	requests  *serve.Process             // bounds those to all realms
	states    atomic.Pointer[past.Cache] // of the past; set by Run
	waits     atomic.Pointer[error]      // why the list of realms could not be read at the start, nil once it was
	archivers *archivers
	kick      chan struct{}        // gets a token when the list of realms has changed
	stopping  map[string]*stopping // only followList uses it

	mu       sync.Mutex
	realms   map[string]*realm
	deleting map[string]bool // the realms whose deletion this process carries out
}

// New returns a service. Run starts it.
func New(c Config) (*Service, error) {
	if len(c.Realms) == 0 {
		c.Realms = []string{bus.DefaultRealm}
	}
	for _, r := range c.Realms {
		if err := bus.CheckRealm(r); err != nil {
			return nil, err
		}
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.CheckLog == 0 {
		c.CheckLog = 5 * time.Second
	}
	if c.ScrubLog == 0 {
		c.ScrubLog = 24 * time.Hour
	}
	if c.QueueBudget == nil {
		c.QueueBudget = writer.NewBudget(writer.DefaultBudget)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = watch.DefaultHeartbeat
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Instance == "" {
		host, _ := os.Hostname()
		c.Instance = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.measure == 0 {
		c.measure = measureInterval
	}
	if c.Disk == nil {
		c.Disk = diskUsage
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	if c.Secrets.Newest() == 0 {
		return nil, errors.New("graph: no secret: commits cannot be authenticated without one")
	}
	var err error
	if c.Conn == c.Answers {
		return nil, errors.New("graph: the connection that answers requests must be another than the one that writes the log")
	}
	if c.ID, err = instanceID(c.Dir); err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	s := &Service{
		c: c, js: js, watches: watch.NewProcess(c.Watch), requests: serve.NewProcess(), metrics: newMetrics(c.Registry), registry: registry.New(js, c.Replicas),
		kick: make(chan struct{}, 1), realms: map[string]*realm{}, stopping: map[string]*stopping{}, deleting: map[string]bool{},
	}
	s.archivers = &archivers{verifying: semaphore.NewWeighted(1), realms: s.all}
	s.dropped = watchDropped(c.Answers, func(realm string, requests int) { s.metrics.dropped.WithLabelValues(realm).Add(float64(requests)) })
	s.clock = clock.New(clock.Config{Wall: c.Now, Limit: c.MaxClockSkew, Server: s.registry.ServerTime})
	s.metrics.comparesClock(s.clock.Ahead)
	s.member = lease.New(js, lease.Config{
		ID: c.ID, Name: c.Instance, TTL: c.LeaseTTL, Replicas: c.Replicas, Log: c.Log, Ready: s.couldWrite,
	})
	for _, name := range c.Realms {
		s.realms[name] = s.newRealm(name)
	}
	return s, nil
}

// newRealm returns a realm that does not run yet.
func (s *Service) newRealm(name string) *realm {
	r := &realm{
		c: &s.c, member: s.member, clock: s.clock, time: s.clock.NewRealm(), name: name, js: s.js, log: s.c.Log.With("realm", name),
		metrics: s.metrics.of(name), keys: eventlog.NewKeys(s.c.Secrets, name), archive: s.c.Archive, states: &s.states,
		watches: s.watches, requests: s.requests, archivers: s.archivers,
	}
	r.recent = propagator.NewRecentCalls(r.time.Now)
	r.warner = warn.New(s.c.Conn, name, s.clock.Now, r.log)
	r.consumers = consumers.New(s.js, name, time.Now) // compared with the NATS server's times
	r.stuck = stuckCalls{consumers: r.consumers, realm: name, now: time.Now}
	r.enter(phaseWaiting)
	r.metrics.watching(func() (used watch.Usage) {
		if h := r.shown.Load(); h != nil {
			used = h.Usage()
		}
		return used
	})
	return r
}

// instanceID returns the id of a directory, and creates it if the directory has none.
func instanceID(dir string) (string, error) {
	if err := datadir.Make(dir); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "instance")
	b, err := os.ReadFile(file)
	if err == nil && len(b) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	text := drawID()
	return text, datadir.WriteFile(file, []byte(text+"\n"))
}

func drawID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// Run serves the realms of the list until ctx ends, or until all of them have failed with an
// error that waiting does not cure. If only some have failed, they are tried again after a
// pause.
func (s *Service) Run(ctx context.Context) (err error) {
	states, err := past.NewCache(filepath.Join(s.c.Dir, pastDir), s.c.Past)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, states.Close()) }()
	s.states.Store(states)
	cache := s.c.State.Cache
	if cache == nil {
		cache = state.NewCache(s.c.State)
		defer cache.Unref()
		s.c.State.Cache = cache
	}
	g, ctx := errgroup.WithContext(ctx)
	// Both end after the realms: the leases are released before the membership ends.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { s.clock.Run(lasting) })
	ended.Go(func() { s.member.Run(lasting) })
	defer func() {
		stop()
		ended.Wait()
	}()
	list, err := s.serveRealms()
	if err != nil {
		return err
	}
	if s.c.Archive == nil {
		s.c.Log.Info("there is no archive: nothing is cut from the logs, which grow; name one with --archive")
	}
	g.Go(func() error {
		s.measureDropped(ctx)
		return nil
	})
	g.Go(func() error { return s.followList(ctx, g) })
	return errors.Join(g.Wait(), list.Stop())
}

// measureDropped counts the requests that were dropped, until ctx ends.
func (s *Service) measureDropped(ctx context.Context) {
	tick := time.NewTicker(s.c.measure)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.dropped.measure()
		}
	}
}

// Ready returns nil when this process is connected to NATS and every realm follows its
// log, and the clock is near the NATS server's time, and otherwise what it is waiting for. It
// also returns an error for 10 s after requests were dropped before the service read them.
func (s *Service) Ready() error {
	if err := bus.Connected(s.c.Conn, s.c.Answers); err != nil {
		return err
	}
	if why := s.waits.Load(); why != nil {
		return fmt.Errorf("waiting for the list of realms: %w", *why)
	}
	var all []error
	for _, r := range s.all() {
		all = append(all, r.ready())
	}
	return errors.Join(append(all, s.clock.Check(), s.dropped.check())...)
}

// Status names the phase of each realm, a line for each.
func (s *Service) Status() string {
	var b strings.Builder
	for _, r := range s.all() {
		fmt.Fprintf(&b, "realm %s: %s\n", r.name, r.phase.Load())
	}
	return b.String()
}

// Writing reports whether this process is the writer of all realms.
func (s *Service) Writing() bool {
	for _, r := range s.all() {
		if r.phase.Load().(phase) != phaseWriter {
			return false
		}
	}
	return true
}
