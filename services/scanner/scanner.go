// Package scanner walks all objects at a bounded rate, and enqueues those with a reference
// that is dangling or waiting. It also asks to republish work that has been pending for
// long, has unreachable cycles looked for and expiry policies evaluated, and has objects
// deleted that have expired. Because of it work messages are only hints: losing one delays
// the work until the scanner finds it; it never loses work.
package scanner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/boottime"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/realmset"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config configures a Service.
type Config struct {
	// Conn is the connection, under the role bus.RoleScanner. Required.
	Conn *nats.Conn
	// Realms are the realms until the list of realms has been read; bus.DefaultRealm.
	Realms []string
	// Interval is the time between the starts of two walks; 10 minutes if zero.
	Interval time.Duration
	// Rate is the maximum number of objects that are walked in a second; 20,000 if zero.
	Rate int
	// RepublishInterval is the time between two requests to republish pending work, and
	// RepublishAge the minimum time for which that work has been pending; 10 s and 30 s if
	// zero.
	RepublishInterval, RepublishAge time.Duration
	// ExpiryInterval is the time between two searches for objects that have expired; 5 s if
	// zero.
	ExpiryInterval time.Duration
	// PolicyInterval is the time between two evaluations of all expiry policies; 1 minute if zero.
	PolicyInterval time.Duration
	// Wall is the wall clock; time.Now if nil. Elapsed is a clock that changes of the wall clock
	// do not affect; boottime.Now if nil.
	Wall     func() time.Time
	Elapsed  func() time.Duration
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Service is the scanner.
type Service struct {
	c       Config
	js      jetstream.JetStream
	clock   *steady
	metrics *metrics
	mu      sync.Mutex
	waiting map[string]error // by realm
	// answered has the realms in which the graph service has replied at least once.
	answered map[string]bool
}

type metrics struct {
	walked   *prometheus.CounterVec
	dirty    *prometheus.CounterVec
	unknown  *prometheus.GaugeVec
	cycles   *prometheus.GaugeVec
	duration *prometheus.GaugeVec
	last     *prometheus.GaugeVec
	errors   *prometheus.CounterVec
	expired  *prometheus.CounterVec
	matched  *prometheus.GaugeVec
	noticed  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	f := promauto.With(r)
	realm := []string{"realm"}
	return &metrics{
		walked:   f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_scanner_walked_total", Help: "Objects that the scanner has looked at."}, realm),
		dirty:    f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_scanner_dirty_total", Help: "Objects that the scanner found dirty and enqueued."}, realm),
		unknown:  f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_scanner_unknown_objects", Help: "Objects that are kept because an owner is unknown, in the last walk."}, realm),
		cycles:   f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_scanner_unreachable_cycles", Help: "Cycles of objects that nothing outside of them owns, in the last walk."}, realm),
		duration: f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_scanner_walk_seconds", Help: "Time of the last walk."}, realm),
		last:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_scanner_last_walk_timestamp_seconds", Help: "When the last walk ended."}, realm),
		errors:   f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_scanner_errors_total", Help: "Failures, by stage: kinds, walk, enqueue, cycles, republish, expiry. A kind that fails is left out of the walk."}, []string{"realm", "stage"}),
		expired:  f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_scanner_expired_total", Help: "Objects that were deleted because they have expired."}, realm),
		matched:  f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_scanner_policy_matches", Help: "Objects to which an expiry policy applied at its last evaluation."}, []string{"realm", "policy"}),
		noticed:  f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_scanner_policy_noticed", Help: "Objects for whose deletion an expiry policy has given notice, at its last evaluation."}, []string{"realm", "policy"}),
	}
}

// remove removes the metrics of a realm.
func (m *metrics) remove(realm string) {
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{m.walked, m.dirty, m.unknown, m.cycles, m.duration, m.last, m.errors, m.expired, m.matched, m.noticed} {
		v.DeletePartialMatch(prometheus.Labels{"realm": realm})
	}
}

// errWaiting is why a realm is not ready before the graph service has replied.
var errWaiting = errors.New("waiting for the graph service")

// New returns a service. Run starts it.
func New(c Config) (*Service, error) {
	if len(c.Realms) == 0 {
		c.Realms = []string{bus.DefaultRealm}
	}
	if c.Interval == 0 {
		c.Interval = 10 * time.Minute
	}
	if c.Rate == 0 {
		c.Rate = 20000
	}
	if c.RepublishInterval == 0 {
		c.RepublishInterval = 10 * time.Second
	}
	if c.RepublishAge == 0 {
		c.RepublishAge = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.ExpiryInterval == 0 {
		c.ExpiryInterval = 5 * time.Second
	}
	if c.PolicyInterval == 0 {
		c.PolicyInterval = time.Minute
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Elapsed == nil {
		c.Elapsed = boottime.Now
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, fmt.Errorf("scanner: %w", err)
	}
	s := &Service{c: c, js: js, clock: newSteady(c.Wall, c.Elapsed, c.Log), metrics: newMetrics(c.Registry), waiting: map[string]error{}, answered: map[string]bool{}}
	for _, realm := range c.Realms {
		s.waiting[realm] = errWaiting
	}
	return s, nil
}

// Ready returns nil if the graph service has replied in every realm, and otherwise an error
// that names the realm and the reason. It is safe for concurrent use.
func (s *Service) Ready() error {
	if err := bus.Connected(s.c.Conn); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for realm, err := range s.waiting {
		if err != nil {
			return fmt.Errorf("realm %s: %w", realm, err)
		}
	}
	return nil
}

// failed counts a failure. Before the first reply of the graph service a missing service is
// no failure, because services start in any order.
func (s *scanner) failed(stage string, err error) {
	if sent := (early{}); !errors.As(err, &sent) || !rpc.Retryable(err) {
		s.metrics.errors.WithLabelValues(s.realm, stage).Inc()
	}
}

// early is the error of a request that was sent before the first reply of the graph service.
type early struct{ error }

func (e early) Unwrap() error { return e.error }

func (s *Service) heard(realm string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[realm] = err
	s.answered[realm] = s.answered[realm] || err == nil
}

// Run scans until ctx ends, in all realms of the list.
func (s *Service) Run(ctx context.Context) error {
	return realmset.Run(ctx, realmset.Config{Conn: s.c.Conn, Realms: s.c.Realms, Work: s.work, Ended: s.remove, Log: s.c.Log})
}

// work scans a realm until ctx ends.
func (s *Service) work(ctx context.Context, realm string) error {
	s.mu.Lock()
	if !s.answered[realm] {
		s.waiting[realm] = errWaiting
	}
	s.mu.Unlock()
	r := s.of(realm)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.every(ctx, s.c.RepublishInterval, r.republish) })
	g.Go(func() error { return r.every(ctx, s.c.Interval, r.walk) })
	g.Go(func() error { return r.every(ctx, s.c.ExpiryInterval, r.expire) })
	g.Go(func() error { return r.every(ctx, s.c.PolicyInterval, r.policies) })
	return g.Wait()
}

// remove removes what is known of a realm that is not served any more.
func (s *Service) remove(realm string) {
	s.mu.Lock()
	delete(s.waiting, realm)
	delete(s.answered, realm)
	s.mu.Unlock()
	s.metrics.remove(realm)
}

// Walk walks once through all objects of the realms of the configuration, without Run.
func (s *Service) Walk(ctx context.Context) error {
	var err error
	for _, realm := range s.c.Realms {
		err = errors.Join(err, s.of(realm).walk(ctx))
	}
	return err
}

// scanner scans one realm.
type scanner struct {
	*Service
	realm string
	log   *slog.Logger
}

func (s *Service) of(realm string) *scanner {
	return &scanner{Service: s, realm: realm, log: s.c.Log.With("realm", realm)}
}

// every calls do at an interval, measured from start to start. After a failure it tries
// again after a shorter pause. It logs a failure unless it equals the last one.
func (s *scanner) every(ctx context.Context, interval time.Duration, do func(context.Context) error) error {
	said, pause := "", firstPause
	for {
		next := time.After(interval)
		if err := do(ctx); err != nil && ctx.Err() == nil {
			if err.Error() != said {
				said = err.Error()
				s.log.Info("cannot scan yet; trying again", "error", err)
			}
			next = time.After(min(interval, pause))
			pause = min(2*pause, longestPause)
		} else {
			said, pause = "", firstPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// How long to wait after a failure.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
)

// republish asks the graph service to publish again the work that has been pending for
// RepublishAge.
func (s *scanner) republish(ctx context.Context) error {
	var reply coppicev1.RepublishReply
	err := s.call(ctx, bus.InternalSubject(s.realm, bus.OpRepublish),
		&coppicev1.RepublishRequest{MinAgeMilliseconds: uint32(s.c.RepublishAge.Milliseconds())}, &reply)
	s.heard(s.realm, err)
	if err != nil {
		s.failed("republish", err)
		return fmt.Errorf("republish: %w", err)
	}
	return nil
}

// page is the number of objects that one request walks.
const page = 1000

// walk walks all objects of all kinds. If one kind fails, the others are walked
// nevertheless.
func (s *scanner) walk(ctx context.Context) error {
	start := time.Now()
	kinds, err := s.kinds(ctx)
	if err != nil {
		s.failed("kinds", err)
		return fmt.Errorf("list kinds: %w", err)
	}
	unknown := 0
	var failures error
	for _, resource := range kinds {
		n, err := s.walkKind(ctx, resource)
		unknown += n
		if err != nil {
			s.failed("walk", err)
			failures = errors.Join(failures, fmt.Errorf("%s: %w", resource, err))
		}
	}
	if err := s.cycles(ctx); err != nil {
		s.failed("cycles", err)
		failures = errors.Join(failures, err)
	}
	s.metrics.unknown.WithLabelValues(s.realm).Set(float64(unknown))
	s.metrics.duration.WithLabelValues(s.realm).Set(time.Since(start).Seconds())
	s.metrics.last.WithLabelValues(s.realm).SetToCurrentTime()
	return failures
}

// cycles asks the writer to search for unreachable cycles. Each object of such a cycle has
// an owner, so no evaluation of a single object finds it.
func (s *scanner) cycles(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bus.CyclesTimeout)
	defer cancel()
	var reply coppicev1.CyclesReply
	if err := s.send(ctx, bus.InternalSubject(s.realm, bus.OpCycles), &coppicev1.CyclesRequest{}, &reply); err != nil {
		return fmt.Errorf("cycles: %w", err)
	}
	s.metrics.cycles.WithLabelValues(s.realm).Set(float64(reply.GetCycles()))
	return nil
}

// kinds lists the registered kinds, as resources.
func (s *scanner) kinds(ctx context.Context) ([]string, error) {
	names, err := s.names(ctx, "kinds")
	return append([]string{lifecycle.ResourceName(lifecycle.Group, "kinds")}, names...), err
}

// names lists the names of the objects of a kind of Coppice.
func (s *scanner) names(ctx context.Context, plural string) (names []string, err error) {
	subject := bus.API{Realm: s.realm, Actor: bus.RoleScanner, Verb: bus.VerbList, Group: lifecycle.Group, Plural: plural}.Subject()
	request := &coppicev1.ListRequest{}
	for {
		var reply coppicev1.ListReply
		if err := s.call(ctx, subject, request, &reply); err != nil {
			return nil, err
		}
		for _, o := range reply.GetObjects() {
			names = append(names, o.GetMetadata().GetName())
		}
		if request.Continue = reply.GetContinue(); request.Continue == "" {
			return names, nil
		}
	}
}

// walkKind walks all objects of a kind, and enqueues those that must be evaluated.
func (s *scanner) walkKind(ctx context.Context, resource string) (unknown int, err error) {
	request := &coppicev1.WalkRequest{Resource: resource, Limit: page}
	for {
		begun := time.Now()
		var reply coppicev1.WalkReply
		if err := s.call(ctx, bus.InternalSubject(s.realm, bus.OpWalk), request, &reply); err != nil {
			return unknown, err
		}
		var dirty []byte
		looked := 0
		err := resolution.Each(reply.GetObjects(), func(u uid.UID, t lifecycle.Traits, classes []lifecycle.Class) {
			looked++
			switch lifecycle.Decide(t, classes) {
			case lifecycle.Keep, lifecycle.KeepProtected, lifecycle.Pause:
			case lifecycle.Wait:
				unknown++
			default:
				dirty = append(dirty, u...)
				s.metrics.dirty.WithLabelValues(s.realm).Inc()
			}
		})
		if err != nil {
			return unknown, err
		}
		s.metrics.walked.WithLabelValues(s.realm).Add(float64(looked))
		if err := s.enqueue(ctx, dirty, reply.GetObjects().GetRevision()); err != nil {
			s.failed("enqueue", err)
			return unknown, err
		}
		pause := time.Duration(looked)*time.Second/time.Duration(s.c.Rate) - time.Since(begun)
		select {
		case <-ctx.Done():
			return unknown, ctx.Err()
		case <-time.After(pause):
		}
		if request.Cursor = reply.GetCursor(); len(request.Cursor) == 0 {
			return unknown, nil
		}
	}
}

// enqueue publishes objects to the queue of the processors. If the queue is full, the next
// walk finds them again.
func (s *scanner) enqueue(ctx context.Context, dirty []byte, revision uint64) error {
	if len(dirty) == 0 {
		return nil
	}
	data, err := proto.Marshal(&coppicev1.DirtyChunk{Format: worker.Format, Groups: []*coppicev1.DependentsOf{{Revision: revision, Dependents: dirty}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = s.js.PublishMsg(ctx, &nats.Msg{Subject: bus.WorkSubject(s.realm, bus.QueueDirty), Data: data})
	return err
}

// timeout is the time for which a reply is awaited.
const timeout = 10 * time.Second

func (s *scanner) call(ctx context.Context, subject string, request, reply proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.send(ctx, subject, request, reply)
}

// send sends a request. Its error is early if the graph service had not replied before.
func (s *scanner) send(ctx context.Context, subject string, request, reply proto.Message) error {
	s.mu.Lock()
	starting := !s.answered[s.realm]
	s.mu.Unlock()
	err := rpc.Call(ctx, s.c.Conn, subject, nil, request, reply)
	if err != nil && starting {
		return early{err}
	}
	return err
}
