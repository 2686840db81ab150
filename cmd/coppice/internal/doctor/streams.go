package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
)

// examineStreams examines the streams of a realm: settings and replicas.
func (x *examination) examineStreams(ctx context.Context, realm string) {
	if x.streamsUnknown {
		return
	}
	log, err := x.stream(ctx, bus.LogStream(realm))
	if unreachable(err) {
		x.streamsUnknown = true
		x.notExamined("streams", "", "connect as the user admin (--user admin and its password)", "settings and replicas of the streams: this user may not ask for them")
		return
	}
	configs := append([]jetstream.StreamConfig{bus.LogConfig(realm, 0)}, bus.WorkConfigs(realm, 0)...)
	for _, want := range configs {
		info := log
		if want.Name != bus.LogStream(realm) {
			info, err = x.stream(ctx, want.Name)
		}
		if err != nil {
			do := "restart the graph service that writes the realm: it creates the stream"
			if errors.Is(err, context.DeadlineExceeded) {
				do = noLeader
			}
			x.attention("streams", want.Name, do, "%v", err)
			continue
		}
		if wrong := differences(realm, &info.Config, &want); wrong != "" {
			x.attention("streams", want.Name, "restore the setting with 'nats stream edit' as the user admin, or restart a graph service, which sets those of all streams but the log", "%s", wrong)
			continue
		}
		if log != nil && info.Config.Replicas != log.Config.Replicas {
			x.attention("streams", want.Name, "give all graph services the same --replicas; they set it for new realms", "%d replicas, and the log has %d", info.Config.Replicas, log.Config.Replicas)
			continue
		}
		if info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "" {
			x.attention("replicas", want.Name, noLeader, "no NATS server leads the stream")
			continue
		}
		if wrong := absentReplicas(info); wrong != "" {
			x.attention("replicas", want.Name, "start the NATS server, or wait until it has caught up; stop no other one meanwhile", "%s", wrong)
			continue
		}
		x.ok("streams", want.Name, "settings and %d replicas as they should be", info.Config.Replicas)
	}
}

// noLeader says what to do about a stream without a leader.
const noLeader = "start the NATS servers that have it; if all run, max_memory_store is 0 or used up: see the runbook CoppiceWorkStreamDown"

func (x *examination) stream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := x.limited(ctx)
	defer cancel()
	ctx, stop := rpc.Watched(ctx, x.Conn, bus.StreamInfoSubject(name))
	defer stop()
	s, err := x.js.Stream(ctx, name)
	if err != nil {
		return nil, cmp.Or(rpc.DeniedBy(ctx), err)
	}
	return s.CachedInfo(), nil
}

// unreachable reports whether an error is that of a user who cannot reach JetStream.
func unreachable(err error) bool {
	for _, one := range []error{client.ErrForbidden, jetstream.ErrJetStreamNotEnabledForAccount, jetstream.ErrJetStreamNotEnabled, nats.ErrNoResponders} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// differences returns the settings of a stream that matter and are not as they should be.
func differences(realm string, is, want *jetstream.StreamConfig) string {
	if want.Name == bus.LogStream(realm) {
		if err := bus.CheckLog(realm, *is); err != nil {
			return err.Error()
		}
		return ""
	}
	var wrong []string
	for _, f := range []struct {
		name     string
		is, want any
	}{
		{"retention", is.Retention, want.Retention},
		{"discard", is.Discard, want.Discard},
		{"max_msgs_per_subject", is.MaxMsgsPerSubject, max(want.MaxMsgsPerSubject, -1)},
		{"subjects", fmt.Sprint(is.Subjects), fmt.Sprint(want.Subjects)},
	} {
		if fmt.Sprint(f.is) != fmt.Sprint(f.want) && (f.name != "max_msgs_per_subject" || want.MaxMsgsPerSubject > 0) {
			wrong = append(wrong, fmt.Sprintf("%s is %v, and must be %v", f.name, f.is, f.want))
		}
	}
	return strings.Join(wrong, "; ")
}

// absentReplicas returns which replicas of a stream do not follow.
func absentReplicas(info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	var wrong []string
	for _, r := range info.Cluster.Replicas {
		switch {
		case r.Offline:
			wrong = append(wrong, fmt.Sprintf("the NATS server %s does not answer", r.Name))
		case !r.Current:
			wrong = append(wrong, fmt.Sprintf("the NATS server %s is %d messages behind", r.Name, r.Lag))
		}
	}
	return strings.Join(wrong, "; ")
}
