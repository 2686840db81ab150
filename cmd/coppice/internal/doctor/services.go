package doctor

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/coppice-gc/coppice/internal/admin"
)

// Limits of what is as it should be.
const (
	mostClock  = 5 * time.Second
	mostEvents = 10_000 // that a replica may be behind
)

// examineServices examines the services whose URLs are named, or else those on the default ports of this machine.
func (x *examination) examineServices(ctx context.Context, defaults []*url.URL) {
	named := x.services
	if len(named) == 0 {
		named = defaults
	}
	found := map[string]bool{}
	x.usersFiles = map[string]string{}
	applied := map[string]map[string]float64{} // the revision by realm and service
	for _, u := range named {
		limited, cancel := x.limited(ctx)
		h, err := admin.Check(limited, u)
		cancel()
		if len(x.services) == 0 && (errors.Is(err, admin.ErrNothingListens) || errors.Is(err, admin.ErrNotCoppice)) {
			continue
		}
		found[h.Service] = true
		subject := h.Service + " at " + u.Redacted()
		switch {
		case err != nil:
			x.attention("service", u.Redacted(), "start the service, or name the address of its --http with --service", "%v", err)
			continue
		case h.Waiting != "":
			x.attention("service", subject, "see the log of the service", "it is not ready: %s", h.Waiting)
		default:
			x.ok("service", subject, "it is ready")
		}
		if err := x.examineMetrics(ctx, u, subject, applied); err != nil {
			x.attention("service", subject, "", "%v", err)
		}
	}
	if len(found) == 0 {
		x.notExamined("services", "", "name the address of the --http of each service with --service", "clocks, lag and disks of services: none listens on a default port of this machine")
	}
	if !found["scanner"] && !found["up"] {
		x.notExamined("scanner", "", "name the address of its --http with --service", "whether a scanner runs: it finds work that no message announced, and deletes what has expired")
	}
	x.examineLag(applied)
	x.examineUsersFiles()
}

// examineUsersFiles compares the users files of graph services.
func (x *examination) examineUsersFiles() {
	byDigest := map[string][]string{}
	for service, digest := range x.usersFiles {
		byDigest[digest] = append(byDigest[digest], service)
	}
	none := slices.Sorted(slices.Values(byDigest[""]))
	switch {
	case len(byDigest) > 1 && len(none) > 0:
		x.attention("users", "users file", "start each graph service with the same --users-file", "%s has no users file, and refuses the users of the file that others have", strings.Join(none, ", "))
	case len(byDigest) > 1:
		x.attention("users", "users file", "copy the same users file to each graph service", "graph services have different users files: %s", strings.Join(slices.Sorted(maps.Keys(byDigest)), ", "))
	case len(byDigest) == 1 && len(none) == 0:
		x.ok("users", "users file", "all graph services that were examined have the same users file")
	}
}

// metric returns the values of a metric by the value of a label.
func metric(families map[string]*dto.MetricFamily, name, label string, has func(*dto.Metric) bool) map[string]float64 {
	values := map[string]float64{}
	for _, m := range families[name].GetMetric() {
		if has == nil || has(m) {
			values[labelOf(m, label)] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return values
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func (x *examination) examineMetrics(ctx context.Context, u *url.URL, subject string, applied map[string]map[string]float64) error {
	families, err := admin.ReadMetrics(ctx, u)
	if err != nil {
		return err
	}
	for _, ahead := range metric(families, "coppice_graph_clock_ahead_seconds", "", nil) {
		if math.Abs(ahead) > mostClock.Seconds() {
			x.attention("clock", subject, "synchronize the clocks of all machines (NTP)", "its clock differs by %.1f s from that of the NATS server", ahead)
		} else if !math.IsNaN(ahead) {
			x.ok("clock", subject, "its clock differs by %.3f s from that of the NATS server", ahead)
		}
	}
	size := metric(families, "coppice_graph_disk_bytes", "", nil)[""]
	if size > 0 {
		x.examineDisk(subject, metric(families, "coppice_graph_disk_free_bytes", "", nil)[""], size)
	}
	for realm, n := range metric(families, "coppice_graph_log_damaged_messages", "realm", nil) {
		if n > 0 {
			x.attention("log", realm, "see docs/runbooks/CoppiceLogDamaged.md; replace no NATS server before", "%.0f messages of the log are missing or cannot be read", n)
		}
	}
	if families["coppice_graph_revision"] != nil { // a graph service
		x.usersFiles[subject] = ""
		for digest := range metric(families, "coppice_graph_users_file_info", "digest", nil) {
			x.usersFiles[subject] = digest
		}
	}
	if metric(families, "coppice_graph_users_file_stale", "", nil)[""] > 0 {
		x.attention("users", subject, "run coppice nats-config check with the file, and repair it", "its users file cannot be read or is wrong; what users may do is as before")
	}
	isApplied := func(m *dto.Metric) bool { return labelOf(m, "state") == "applied" }
	for realm, revision := range metric(families, "coppice_graph_revision", "realm", isApplied) {
		if applied[realm] == nil {
			applied[realm] = map[string]float64{}
		}
		applied[realm][subject] = revision
	}
	isSnapshot := func(m *dto.Metric) bool { return labelOf(m, "entry") == "snapshot" }
	for realm, revision := range metric(families, "coppice_graph_archived_revision", "realm", isSnapshot) {
		x.ok("archive", realm, "the last verified snapshot has the revision %.0f", revision)
	}
	return nil
}

// examineLag compares the revisions that services have applied.
func (x *examination) examineLag(applied map[string]map[string]float64) {
	for realm, services := range applied {
		newest := 0.0
		for _, revision := range services {
			newest = max(newest, revision)
		}
		for service, revision := range services {
			if newest-revision > mostEvents {
				x.attention("lag", realm, "see docs/runbooks/CoppiceReplicaBehind.md", "%s is %.0f events behind", service, newest-revision)
			} else {
				x.ok("lag", realm, "%s is %.0f events behind", service, newest-revision)
			}
		}
	}
}
