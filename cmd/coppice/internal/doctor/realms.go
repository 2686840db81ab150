package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// leastFree is the part of a disk that should be free.
const leastFree = 0.15

// examineRealms examines each realm.
func (x *examination) examineRealms(ctx context.Context) {
	realms, err := x.Client.Operations().ListRealms(ctx)
	if err != nil {
		x.failed("realms", "", err)
		return
	}
	if len(realms) == 0 {
		x.attention("realms", "", "start a graph service: it creates the realm default", "there is no realm")
	}
	for _, r := range realms {
		if r.GetState() != coppicev1.RealmState_REALM_STATE_ACTIVE {
			if waits := r.GetWaiting(); waits != "" {
				x.attention("realm", r.GetName(), "'coppice realm describe' shows what its deletion waits for", "%s", waits)
			}
			continue
		}
		x.examineStreams(ctx, r.GetName())
		if r.GetWriter() == "" {
			x.attention("writer", r.GetName(), "start a graph service; where one runs, its /readyz and its log say what it waits for", "no graph service writes the realm: commands fail")
			continue // nothing answers
		}
		x.ok("writer", r.GetName(), "%s writes the realm", r.GetWriter())
		x.examineRealm(ctx, r.GetName())
	}
}

// examineRealm examines a realm that has a writer.
func (x *examination) examineRealm(ctx context.Context, realm string) {
	for check, examine := range checks {
		examining, cancel := x.limited(ctx)
		if err := examine(examining, x, realm); err != nil && ctx.Err() == nil {
			x.failed(check, realm, err)
		}
		cancel()
	}
}

// checks of one realm, in any order. An error is that of a request.
var checks = map[string]func(ctx context.Context, x *examination, realm string) error{
	"work":       examineWork,
	"workers":    examineWorkers,
	"parked":     examineParked,
	"brakes":     examineBrakes,
	"warnings":   examineWarnings,
	"finalizers": examineFinalizers,
	"storage":    examineStorage,
}

func examineWork(ctx context.Context, x *examination, realm string) error {
	status, err := x.in(realm).Client.Status(ctx)
	if err != nil {
		return err
	}
	if status.GetPaused() {
		x.attention("work", realm, "'coppice realm resume' ends the pause when it is as it should be", "the realm was restored, and is paused")
		return nil
	}
	fine := true
	for _, w := range status.GetPending() {
		age := x.Clock().Sub(time.UnixMicro(w.GetOldest()))
		if age < old || slices.Contains([]string{"unknown", "braked", "protected"}, w.GetType()) {
			continue
		}
		fine = false
		x.attention("work", realm, "docs/runbooks/CoppiceWorkOld.md and docs/runbooks/CoppiceObjectsTerminating.md; 'coppice explain' says what an object waits for",
			"work of the type %s has waited for %s", w.GetType(), terminal.Age(age))
	}
	if fine {
		x.ok("work", realm, "no work has waited for an hour")
	}
	return nil
}

// betweenPulls is the time for which a queue must have no worker.
const betweenPulls = 3 * time.Second

// queueServices are the services that take the work of queues.
var queueServices = map[string]string{bus.QueueDirty: "processor", bus.QueueOrphan: "finalizers", bus.QueueFinish: "finalizers", bus.QueueDrain: "finalizers"}

// examineWorkers examines whether services take the work of each queue. A service that waits for work has a pull request
// open, and one that works has messages that it has not acknowledged.
func examineWorkers(ctx context.Context, x *examination, realm string) error {
	in := x.in(realm).Client.Operations()
	var idle map[string][]string // queues without a worker, by service
	// Between two pull requests a service has none for a moment.
	waiting, cancel := context.WithTimeout(ctx, betweenPulls)
	defer cancel()
	err := poll.UntilAt(waiting, betweenPulls/20, func() (bool, error) {
		reply, err := in.Consumers(ctx)
		if err != nil {
			return false, err
		}
		idle = map[string][]string{}
		for _, c := range reply.GetConsumers() {
			service, is := queueServices[c.GetQueue()]
			if is && c.GetPulling() == 0 && c.GetUnacknowledged() == 0 {
				idle[service] = append(idle[service], c.GetQueue())
			}
		}
		return len(idle) == 0, nil
	})
	if err != nil && (idle == nil || waiting.Err() == nil) {
		return err
	}
	for service, queues := range idle {
		x.attention("workers", realm, "start a "+service+" service: coppice "+service, "no %s service takes the work of the queues %s", service, strings.Join(queues, ", "))
	}
	if len(idle) == 0 {
		x.ok("workers", realm, "services take the work of all queues")
	}
	return nil
}

func examineParked(ctx context.Context, x *examination, realm string) error {
	page, err := x.in(realm).Client.Operations().ListParked(ctx, client.Limit(1))
	if err != nil {
		return err
	}
	if len(page.GetParked()) > 0 {
		x.attention("parked", realm, "'coppice parked' lists it with its errors, and retries or drops it", "work is parked, because it kept failing")
		return nil
	}
	x.ok("parked", realm, "no work is parked")
	return nil
}

// lasting is the age up to which a warning may still hold: while its reason lasts, it is published every 10 minutes.
const lasting = 15 * time.Minute

// examineWarnings examines the warnings about a realm as a whole: about its log, its archive, and disks.
func examineWarnings(ctx context.Context, x *examination, realm string) error {
	all, err := x.in(realm).Client.Warnings(ctx, "")
	if err != nil {
		return err
	}
	newest := map[string]client.Warning{} // by reason
	for _, w := range all {
		if w.UID == "" && x.Clock().Sub(w.Time) < lasting {
			newest[w.Reason] = w
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(newest)) {
		x.attention("warning", realm, "see the section Warnings of docs/operations.md", "%s: %s", reason, newest[reason].Message)
	}
	if len(newest) == 0 {
		x.ok("warnings", realm, "no warning about the log, the archive or disks in the last %v", lasting)
	}
	return nil
}

func examineBrakes(ctx context.Context, x *examination, realm string) error {
	brakes, err := x.in(realm).Client.Operations().Brakes(ctx)
	if err != nil {
		return err
	}
	fine := true
	for _, b := range brakes {
		if b.GetTripped() == 0 {
			continue
		}
		fine = false
		x.attention("brakes", realm, "'coppice brake release "+b.GetResource()+" --dry-run' shows what would be deleted", "the brake of %s is tripped: the collector deletes none of them", b.GetResource())
	}
	if fine {
		x.ok("brakes", realm, "no brake is tripped")
	}
	return nil
}

func examineFinalizers(ctx context.Context, x *examination, realm string) error {
	in := x.in(realm)
	used, err := in.Client.Operations().Finalizers(ctx)
	if err != nil {
		return err
	}
	consumers := in.Consumers()
	fine := true
	for _, f := range used {
		if f.GetTerminating() == 0 {
			continue
		}
		is := consumers.Finalizer(ctx, f.GetName())
		if slices.Contains([]lookup.ConsumerState{lookup.None, lookup.Silent, lookup.Failing}, is.State) {
			fine = false
			found := "%d objects wait for %s; its program: %s"
			args := []any{f.GetTerminating(), f.GetName(), is.Word()}
			if is.Error != "" {
				found += ": %s"
				args = append(args, is.Error)
			}
			x.attention("finalizers", realm, "start its program, or see its log; 'coppice finalizer remove' removes it from one object", found, args...)
		}
	}
	if fine {
		x.ok("finalizers", realm, "no object waits for a finalizer whose program does not work")
	}
	return nil
}

func examineStorage(ctx context.Context, x *examination, realm string) error {
	s, err := x.in(realm).Client.Operations().Storage(ctx)
	if err != nil {
		return err
	}
	if s.GetDiskBytes() > 0 {
		x.examineDisk(realm, float64(s.GetDiskFreeBytes()), float64(s.GetDiskBytes()))
	}
	switch {
	case !s.GetArchived():
		x.ok("archive", realm, "the realm has no archive: its log is never cut, and has %s", humanize.IBytes(s.GetLogBytes()))
	case s.GetArchiveError() != "":
		x.attention("archive", realm, "see docs/runbooks/CoppiceLogNotArchived.md", "the archive cannot be read: %s", s.GetArchiveError())
	case s.GetCutWaits() != "":
		x.attention("archive", realm, "see docs/runbooks/CoppiceLogNotCut.md", "the log should have been cut: %s", s.GetCutWaits())
	default:
		x.ok("archive", realm, "%d entries, %s", s.GetArchiveEntries(), humanize.IBytes(s.GetArchiveBytes()))
	}
	return nil
}

// examineDisk examines the disk of the states of a graph service.
func (x *examination) examineDisk(subject string, free, size float64) {
	if share := free / size; share < leastFree {
		x.attention("disk", subject, "make room or enlarge the disk before the graph service stops; see docs/runbooks/CoppiceDiskFilling.md", "%.0f%% of the disk of the state are free", 100*share)
		return
	}
	x.ok("disk", subject, "%s of the disk of the state are free", humanize.IBytes(uint64(free)))
}
