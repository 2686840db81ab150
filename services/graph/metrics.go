package graph

import (
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/watch"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// allMetrics are the metrics of all realms.
type allMetrics struct {
	registerer prometheus.Registerer

	revision    *prometheus.GaugeVec
	commits     *prometheus.CounterVec
	events      *prometheus.CounterVec
	bytes       *prometheus.HistogramVec
	seconds     *prometheus.HistogramVec
	requests    *prometheus.HistogramVec
	pending     *prometheus.GaugeVec
	oldest      *prometheus.GaugeVec
	idle        *prometheus.GaugeVec
	collected   *prometheus.CounterVec
	refused     *prometheus.CounterVec
	queued      *prometheus.GaugeVec
	queueSize   *prometheus.GaugeVec
	queueTime   *prometheus.GaugeVec
	repeated    *prometheus.GaugeVec
	undecided   *prometheus.CounterVec
	dropped     *prometheus.CounterVec
	work        *prometheus.GaugeVec
	skipped     *prometheus.CounterVec
	workStream  *prometheus.GaugeVec
	phase       *prometheus.GaugeVec
	failures    *prometheus.CounterVec
	damage      *prometheus.GaugeVec
	rebuilds    *prometheus.CounterVec
	archive     *prometheus.GaugeVec
	logBytes    *prometheus.GaugeVec
	logReplicas *prometheus.GaugeVec
	logCutAt    *prometheus.GaugeVec
	logFirst    *prometheus.GaugeVec
	// What is on disks.
	stateBytes   *prometheus.GaugeVec
	archiveBytes *prometheus.GaugeVec
	diskBytes    prometheus.Gauge
	diskFree     prometheus.Gauge
	logCut       *prometheus.GaugeVec

	archiveFailures *prometheus.CounterVec

	finalizerObjects, finalizerOldest, finalizerConsumer *prometheus.GaugeVec
	finalizerAttempts                                    *prometheus.CounterVec
	parked                                               *prometheus.GaugeVec

	trips    *prometheus.CounterVec
	tripped  *prometheus.GaugeVec
	rejected *prometheus.CounterVec // see refusals
}

func newMetrics(r prometheus.Registerer) *allMetrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	f := promauto.With(r)
	realm := []string{"realm"}
	return &allMetrics{
		registerer:   r,
		revision:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_revision", Help: "Revision of the last object event, by state: committed to the log by this writer, or applied to this replica's state."}, []string{"realm", "state"}),
		commits:      f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_commits_total", Help: "Commits that this process has appended to the log."}, realm),
		events:       f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_events_total", Help: "Object events that this process has appended to the log."}, realm),
		bytes:        f.NewHistogramVec(prometheus.HistogramOpts{Name: "coppice_graph_commit_bytes", Help: "Size of commits.", Buckets: prometheus.ExponentialBuckets(256, 4, 9)}, realm),
		seconds:      f.NewHistogramVec(prometheus.HistogramOpts{Name: "coppice_graph_commit_seconds", Help: "Time of commits, by stage: decide, append (until it is on disk), apply.", Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11)}, []string{"realm", "stage"}),
		requests:     f.NewHistogramVec(prometheus.HistogramOpts{Name: "coppice_graph_commit_requests", Help: "Requests answered by one commit.", Buckets: prometheus.ExponentialBuckets(1, 4, 8)}, realm),
		pending:      f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_pending_rows", Help: "Rows of pending work, by type."}, []string{"realm", "type"}),
		oldest:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_pending_oldest_seconds", Help: "Age of the oldest row of pending work, by type."}, []string{"realm", "type"}),
		idle:         f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_idle", Help: "1 while no work is pending, other than dependents that only unknown owners keep."}, realm),
		collected:    f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_collected_total", Help: "Objects that the collector acted on, by action: collected, stripped, orphaned, drained, finished."}, []string{"realm", "action"}),
		queued:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_queue_requests", Help: "Requests that wait for the writer to decide them. It refuses further ones at a limit."}, realm),
		queueSize:    f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_queue_bytes", Help: "Size of the requests that wait for the writer."}, realm),
		queueTime:    f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_queue_seconds", Help: "Estimated time to decide the requests that wait for the writer."}, realm),
		repeated:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_queue_repetitions", Help: "Requests that repeat a command whose outcome is not known yet, and wait for this outcome."}, realm),
		undecided:    f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_queue_undecided_total", Help: "Requests that the writer did not decide, by reason: refused beyond a limit, expired because the client no longer waits, repeated because the same command has no outcome yet."}, []string{"realm", "reason"}),
		dropped:      f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_requests_dropped_total", Help: "Requests that the NATS client of this process dropped before the service read them."}, realm),
		work:         f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_work_messages", Help: "Messages of work that wait or are being processed, by queue."}, []string{"realm", "queue"}),
		workStream:   f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_work_stream_up", Help: "1 while the stream of work answers the writer, 0 while it does not: cascades wait."}, realm),
		phase:        f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_phase", Help: "1 for the phase of this process in the realm, 0 for all others."}, []string{"realm", "phase"}),
		failures:     f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_realm_failures_total", Help: "Failures of the realm. Each is retried after 1 s to 1 min."}, realm),
		skipped:      f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_log_skipped_total", Help: "Messages in the log that are no commits of the realm, and are skipped: another program publishes to the log's subject."}, realm),
		damage:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_log_damaged_messages", Help: "Messages of the log that are missing or cannot be read."}, realm),
		rebuilds:     f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_state_rebuilds_total", Help: "How often the state was damaged and was rebuilt from the log."}, realm),
		refused:      f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_proposals_refused_total", Help: "Proposals for an object that the writer refused, because they were out of date."}, realm),
		archive:      f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_archived_revision", Help: "Revision of the last commit that this process knows to be in the archive, by entry: in a segment, or in a verified snapshot. Only the process that archives the realm has it."}, []string{"realm", "entry"}),
		logBytes:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_log_bytes", Help: "Size of the stream of the log."}, realm),
		logReplicas:  f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_log_replicas", Help: "NATS servers with the log, by state: configured, or current, which have all of its messages."}, []string{"realm", "state"}),
		logCutAt:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_log_cut_at_bytes", Help: "Size at which the stream of the log is cut; 0 if no size bounds it, or without an archive."}, realm),
		stateBytes:   f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_state_bytes", Help: "Size of the state on the disk of this process."}, realm),
		archiveBytes: f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_archive_bytes", Help: "Size of the realm's entries in the archive. Only the process that archives the realm has it."}, realm),
		diskBytes:    f.NewGauge(prometheus.GaugeOpts{Name: "coppice_graph_disk_bytes", Help: "Size of the disk of the states."}),
		diskFree:     f.NewGauge(prometheus.GaugeOpts{Name: "coppice_graph_disk_free_bytes", Help: "What of the disk of the states is free for this process."}),
		logFirst:     f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_log_first_sequence", Help: "Sequence of the first message of the stream of the log. Earlier ones were cut."}, realm),
		logCut:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_log_cut_timestamp_seconds", Help: "When the stream of the log was cut last, in Unix time; 0 for never."}, realm),

		archiveFailures: f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_archive_failures_total", Help: "Failed attempts to archive the log, or to read the archive where a realm cannot go on without it, each of which is retried after 1 s to 1 min, and entries of the archive that cannot be used."}, realm),

		finalizerObjects:  f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_finalizer_objects", Help: "Objects that wait for an external finalizer, for at most 100 finalizers."}, []string{"realm", "finalizer"}),
		finalizerOldest:   f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_finalizer_oldest_seconds", Help: "For how long the first object has waited for an external finalizer."}, []string{"realm", "finalizer"}),
		finalizerConsumer: f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_finalizer_consumer", Help: "1 for the state of the consumer of an external finalizer for which objects wait: none, silent, idle, working or failing; 0 for all others."}, []string{"realm", "finalizer", "state"}),
		finalizerAttempts: f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_finalizer_attempts_total", Help: "Attempts at calls of an external finalizer that have ended, by outcome: done, failed, returned. The writer counts those of at most 100 finalizers."}, []string{"realm", "finalizer", "outcome"}),

		parked:   f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_parked_messages", Help: "Messages of work that are parked: they failed too often, and an operator must decide."}, realm),
		trips:    f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_brake_trips_total", Help: "How often this process has tripped the brake of a kind, by resource."}, []string{"realm", "resource"}),
		rejected: f.NewCounterVec(prometheus.CounterOpts{Name: "coppice_graph_refused_total", Help: "Requests, and objects of requests, that were refused with a code 4xx, by the actor, the verb and the reason. Beyond 200 actors or 2,000 series of a realm the actor is other."}, []string{"realm", "actor", "verb", "reason"}),
		tripped:  f.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_graph_brakes_tripped", Help: "Kinds whose brake is tripped: the collector deletes none of their objects until it is released."}, realm),
	}
}

// metrics are those of one realm.
type metrics struct {
	all     *allMetrics
	realm   string
	refused *refusals
	writing func() *writing
	own     []prometheus.Collector // of this realm alone
	counted map[string]struct{}    // the finalizers that have metrics
	called  map[string]struct{}    // the finalizers whose attempts are counted
}

// remove removes the metrics of a realm that this process no longer serves.
func (m *metrics) remove() {
	a := m.all
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{
		a.revision, a.commits, a.events, a.bytes, a.seconds, a.requests, a.pending, a.oldest, a.idle, a.collected, a.refused,
		a.queued, a.queueSize, a.queueTime, a.repeated, a.undecided, a.dropped, a.work, a.workStream, a.skipped, a.phase, a.failures, a.damage, a.rebuilds, a.archive, a.archiveFailures,
		a.logBytes, a.logReplicas, a.stateBytes, a.archiveBytes, a.logCutAt, a.logFirst, a.logCut, a.trips, a.tripped, a.rejected,
		a.finalizerObjects, a.finalizerOldest, a.finalizerConsumer, a.finalizerAttempts, a.parked,
	} {
		v.DeletePartialMatch(prometheus.Labels{"realm": m.realm})
	}
	for _, c := range m.own {
		a.registerer.Unregister(c)
	}
}

// of returns the metrics of a realm. It creates the counters with 0, because the rate of a
// counter that appears with its first count would miss this count.
func (m *allMetrics) of(realm string) *metrics {
	for _, action := range []string{actionCollected, actionStripped, actionOrphaned, actionDrained, actionFinished} {
		m.collected.WithLabelValues(realm, action)
	}
	m.refused.WithLabelValues(realm)
	m.dropped.WithLabelValues(realm)
	for _, reason := range writer.Counts {
		m.undecided.WithLabelValues(realm, string(reason))
	}
	m.skipped.WithLabelValues(realm)
	m.failures.WithLabelValues(realm)
	m.damage.WithLabelValues(realm)
	m.rebuilds.WithLabelValues(realm)
	m.archiveFailures.WithLabelValues(realm)
	return &metrics{
		all: m, realm: realm, refused: newRefusals(m.rejected, realm),
		writing: sync.OnceValue(func() *writing { return m.writing(realm) }),
	}
}

// writing has the metrics of commits, which only a writer has. They are looked up once: to
// look them up for each commit takes as long as writing a small commit to the state.
type writing struct {
	applied, committed    prometheus.Gauge
	commits, events       prometheus.Counter
	bytes, requests       prometheus.Observer
	decide, append, apply prometheus.Observer
	queued, queueSize     prometheus.Gauge
	queueTime, repeated   prometheus.Gauge
}

func (m *allMetrics) writing(realm string) *writing {
	return &writing{
		applied: m.revision.WithLabelValues(realm, "applied"), committed: m.revision.WithLabelValues(realm, "committed"),
		commits: m.commits.WithLabelValues(realm), events: m.events.WithLabelValues(realm),
		bytes: m.bytes.WithLabelValues(realm), requests: m.requests.WithLabelValues(realm),
		decide: m.seconds.WithLabelValues(realm, "decide"),
		append: m.seconds.WithLabelValues(realm, "append"),
		apply:  m.seconds.WithLabelValues(realm, "apply"),
		queued: m.queued.WithLabelValues(realm), queueSize: m.queueSize.WithLabelValues(realm),
		queueTime: m.queueTime.WithLabelValues(realm), repeated: m.repeated.WithLabelValues(realm),
	}
}

// comparesClock registers the metric of the clock of this machine. ahead is Clock.Ahead.
func (m *allMetrics) comparesClock(ahead func() (time.Duration, bool)) {
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coppice_graph_clock_ahead_seconds", Help: "How far the clock of this machine is ahead of the NATS server's; negative if it is behind; NaN before the first comparison.",
	}, func() float64 {
		if d, ok := ahead(); ok {
			return d.Seconds()
		}
		return math.NaN()
	}))
}

// watching registers metrics that show what the realm's hub stores.
func (m *metrics) watching(used func() watch.Usage) {
	for _, g := range []struct {
		name, help string
		of         func(watch.Usage) int
	}{
		{"coppice_graph_watches", "Watches that are open at this replica.", func(h watch.Usage) int { return h.Watches }},
		{"coppice_graph_watch_changes", "Changes that are kept for watches.", func(h watch.Usage) int { return h.Changes }},
		{"coppice_graph_watch_bytes", "Approximate memory of the changes that are kept for watches, in bytes.", func(h watch.Usage) int { return h.Bytes }},
	} {
		c := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help, ConstLabels: prometheus.Labels{"realm": m.realm}},
			func() float64 { return float64(g.of(used())) })
		m.all.registerer.MustRegister(c)
		m.own = append(m.own, c)
	}
}

// Values of the label action: what the collector did with objects.
const (
	actionCollected = "collected"
	actionStripped  = "stripped"
	actionOrphaned  = "orphaned"
	actionDrained   = "drained"
	actionFinished  = "finished"
)

// phase sets the phase.
func (m *metrics) phase(is phase) {
	for _, p := range phases {
		v := 0.0
		if p == is {
			v = 1
		}
		m.all.phase.WithLabelValues(m.realm, string(p)).Set(v)
	}
}

func (m *metrics) applied(revision uint64) {
	m.all.revision.WithLabelValues(m.realm, "applied").Set(float64(revision))
}

func (m *metrics) committed(c writer.Applied) {
	w := m.writing()
	w.applied.Set(float64(c.Revision))
	w.committed.Set(float64(c.Revision))
	w.commits.Inc()
	w.events.Add(float64(c.Events))
	w.bytes.Observe(float64(c.Bytes))
	w.requests.Observe(float64(c.Requests))
	w.decide.Observe(c.Decide.Seconds())
	w.append.Observe(c.Append.Seconds())
	w.apply.Observe(c.Apply.Seconds())
}

// queue sets what waits for the writer.
func (m *metrics) queue(of *writer.Writer) {
	requests, bytes := of.Queued()
	work, repetitions := of.Backlog()
	w := m.writing()
	w.queued.Set(float64(requests))
	w.queueSize.Set(float64(bytes))
	w.queueTime.Set(work.Seconds())
	w.repeated.Set(float64(repetitions))
}

// undecided counts a request that the writer did not decide.
func (m *metrics) undecided(reason writer.Count) {
	m.all.undecided.WithLabelValues(m.realm, string(reason)).Inc()
}

// damaged sets how many messages of the log are missing or cannot be read.
func (m *metrics) damaged(messages uint64) {
	m.all.damage.WithLabelValues(m.realm).Set(float64(messages))
}

// archived sets the revisions up to which segments and verified snapshots are archived, 0 for
// none, and the size of the archive.
func (m *metrics) archived(p archiver.Progress) {
	m.all.archive.WithLabelValues(m.realm, "segment").Set(float64(p.Segments))
	m.all.archive.WithLabelValues(m.realm, "snapshot").Set(float64(p.Snapshot))
	m.all.archiveBytes.WithLabelValues(m.realm).Set(float64(p.Bytes))
}

// disk sets what the state takes on its disk, and what is free there.
func (m *metrics) disk(stateBytes uint64, usage vfs.DiskUsage) {
	m.all.stateBytes.WithLabelValues(m.realm).Set(float64(stateBytes))
	m.all.diskBytes.Set(float64(usage.TotalBytes))
	m.all.diskFree.Set(float64(usage.AvailBytes))
}

// extent sets what the stream of the log has, and at which size it is cut.
func (m *metrics) extent(e *eventlog.Extent, due archiver.Due) {
	m.all.logCutAt.WithLabelValues(m.realm).Set(float64(due.Bytes))
	m.all.logReplicas.WithLabelValues(m.realm, "configured").Set(float64(e.Replicas))
	m.all.logReplicas.WithLabelValues(m.realm, "current").Set(float64(e.Copies))
	m.all.logBytes.WithLabelValues(m.realm).Set(float64(e.Bytes))
	m.all.logFirst.WithLabelValues(m.realm).Set(float64(e.First))
	m.all.logCut.WithLabelValues(m.realm) // 0 before the first cut
}

// cut sets when the log was cut last.
func (m *metrics) cut(a eventlog.Announcement) {
	if !a.At.IsZero() {
		m.all.logCut.WithLabelValues(m.realm).Set(float64(a.At.Unix()))
	}
}

// parks sets how many messages of work are parked.
func (m *metrics) parks(messages uint64) {
	m.all.parked.WithLabelValues(m.realm).Set(float64(messages))
}

// endTerm removes the metrics that only a writer updates: of a process that is not the writer any more, they would show
// the past.
func (m *metrics) endTerm() {
	of := prometheus.Labels{"realm": m.realm}
	for _, v := range []*prometheus.GaugeVec{m.all.pending, m.all.oldest, m.all.idle, m.all.work, m.all.workStream, m.all.parked, m.all.tripped} {
		v.DeletePartialMatch(of)
	}
	m.finalizers(nil, time.Time{})
	w := m.writing()
	for _, g := range []prometheus.Gauge{w.queued, w.queueSize, w.queueTime, w.repeated} {
		g.Set(0)
	}
}

// workAvailable sets whether the work stream answers.
func (m *metrics) workAvailable(is bool) {
	v := 0.0
	if is {
		v = 1
	}
	m.all.workStream.WithLabelValues(m.realm).Set(v)
}

// working sets how many messages of work there are.
func (m *metrics) working(queue string, messages uint64) {
	m.all.work.WithLabelValues(m.realm, queue).Set(float64(messages))
}

// pending sets pending work, as it was counted.
func (m *metrics) pending(counts []*coppicev1.PendingCount, now time.Time) {
	for _, t := range propagator.Types {
		rows, age := 0.0, 0.0
		for _, c := range counts {
			if c.GetType() == t {
				rows, age = float64(c.GetRows()), now.Sub(time.UnixMicro(c.GetOldest())).Seconds()
			}
		}
		m.all.pending.WithLabelValues(m.realm, t).Set(rows)
		m.all.oldest.WithLabelValues(m.realm, t).Set(age)
	}
	idle := 0.0
	if propagator.Idle(counts) {
		idle = 1
	}
	m.all.idle.WithLabelValues(m.realm).Set(idle)
}

// answered counts what a reply to a processor or a finalizer says was done.
func (m *metrics) answered(reply proto.Message) {
	add := func(action string, n uint32) { m.all.collected.WithLabelValues(m.realm, action).Add(float64(n)) }
	var refused []byte
	switch r := reply.(type) {
	case *coppicev1.ProposeReply:
		add(actionCollected, r.GetCollected())
		add(actionStripped, r.GetStripped())
		refused = r.GetRefused()
	case *coppicev1.OrphanReply:
		add(actionOrphaned, r.GetOrphaned())
	case *coppicev1.DrainReply:
		add(actionDrained, r.GetDrained())
	case *coppicev1.FinishReply:
		add(actionFinished, r.GetFinished())
		refused = r.GetRefused()
	}
	for range uid.All(refused) {
		m.all.refused.WithLabelValues(m.realm).Inc()
	}
}
