package mirror

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// script is a mirror to which the lines of a scenario are applied. The uid of an object is its name.
type script struct {
	m       *Mirror
	start   time.Time
	now     time.Time
	version uint64
	objects map[string]Change
	watch   map[string]*Watch
	follow  map[string]*Follow
}

var kindsByResource = map[string][2]string{
	"pods": {"v1", "Pod"}, "deployments.apps": {"apps/v1", "Deployment"}, "namespaces": {"v1", "Namespace"},
	"kinds.coppice.dev": {"coppice.dev/v1", "Kind"}, "nodes": {"v1", "Node"},
}

// put reads "pods/a in=shop owners=b,c finalizers=x deleting=2s grace=30s protected labels=k=v". An owner that
// is written as "b!" is not blocked by the object.
func (s *script) put(line string) {
	words := strings.Fields(line)
	resource, name, _ := strings.Cut(words[0], "/")
	s.version++
	meta := &coppicev1.ObjectMeta{Name: name, Uid: name, ResourceVersion: s.version, CreationTimestamp: timestamppb.New(s.start)}
	var deleting, grace time.Duration
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "in":
			meta.Namespace = value
		case "owners":
			for owner := range strings.SplitSeq(value, ",") {
				owner, notBlocking := strings.CutSuffix(owner, "!")
				of := s.objects[owner]
				blocks := !notBlocking
				r := &coppicev1.OwnerReference{Uid: owner, Name: owner, ApiVersion: "v1", Kind: "Pod", BlockOwnerDeletion: &blocks}
				if of.Object != nil {
					r.ApiVersion, r.Kind = of.Object.GetApiVersion(), of.Object.GetKind()
				}
				meta.OwnerReferences = append(meta.OwnerReferences, r)
			}
		case "finalizers":
			meta.Finalizers = strings.Split(value, ",")
		case "deleting":
			deleting, _ = time.ParseDuration(value)
		case "grace":
			grace, _ = time.ParseDuration(value)
			seconds := int64(grace.Seconds())
			meta.DeletionGracePeriodSeconds = &seconds
		case "protected":
			meta.Protection = &coppicev1.Protection{Reason: "kept"}
		case "labels":
			k, v, _ := strings.Cut(value, "=")
			meta.Labels = map[string]string{k: v}
		}
	}
	if strings.Contains(line, "deleting=") {
		meta.DeletionTimestamp = timestamppb.New(s.now.Add(grace - deleting))
	}
	c := Change{Op: Put, Resource: resource, Revision: s.version, Object: &coppicev1.Object{ApiVersion: kindsByResource[resource][0], Kind: kindsByResource[resource][1], Metadata: meta}}
	s.objects[name] = c
	s.m.Apply(c)
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	lines := strings.Split(d.Input, "\n")
	var b strings.Builder
	switch d.Cmd {
	case "put":
		for _, line := range lines {
			s.put(line)
		}
	case "unchanged":
		for _, name := range lines {
			s.m.Apply(s.objects[name])
		}
	case "remove":
		for _, name := range lines {
			s.version++
			c := s.objects[name]
			c.Op, c.Revision = Remove, s.version
			s.m.Apply(c)
		}
	case "synced":
		s.m.Apply(Change{Op: Synced})
	case "restart":
		s.m.Apply(Change{Op: Restart})
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.now = s.now.Add(by)
	case "deletions":
		list, total := s.m.Deletions(10)
		for _, e := range list {
			gone := ""
			if e.Gone {
				gone = " (gone)"
			}
			fmt.Fprintf(&b, "%s%s: began %v, remaining %d, removed %d, rate %.1f/s, blocked %d\n", name(e.Root), gone, e.Began.Sub(s.start), e.Remaining, e.Removed, e.Rate, e.Blocked)
		}
		fmt.Fprintf(&b, "total %d\n", total)
	case "follow":
		for _, uid := range lines {
			s.follow[uid] = s.m.Follow(uid)
		}
	case "unfollow":
		for _, uid := range lines {
			s.follow[uid].Close()
		}
	case "partial":
		s.m.SetPartial(true)
	case "progress":
		for _, uid := range lines {
			s.progress(&b, uid)
		}
	case "states":
		for _, uid := range lines {
			fmt.Fprintf(&b, "%s: %s\n", uid, s.m.State(uid))
		}
	case "family":
		from, limit := 0, 200
		d.MaybeScanArgs(t, "from", &from)
		d.MaybeScanArgs(t, "limit", &limit)
		f, known := s.m.Family(d.Input, from, limit)
		if !known {
			return "not known\n"
		}
		fmt.Fprintf(&b, "self %s\n", relative(f.Self))
		for _, o := range f.Owners {
			fmt.Fprintf(&b, "owner %s\n", relative(o))
		}
		for _, o := range f.Dependents {
			fmt.Fprintf(&b, "dependent %s\n", relative(o))
		}
		fmt.Fprintf(&b, "from %d of %d, loading %v\n", f.From, f.Total, f.Loading)
	case "search":
		limit := 10
		d.MaybeScanArgs(t, "limit", &limit)
		f := s.m.Search(d.Input, limit)
		for _, o := range f.Matches {
			fmt.Fprintf(&b, "%s\n", name(o.Ref))
		}
		fmt.Fprintf(&b, "more %v\n", f.More)
	case "lists":
		s.lists(&b)
	case "watch":
		s.watch[d.Input] = s.m.Watch(strings.Fields(strings.TrimPrefix(d.Input, "everything"))...)
	case "unwatch":
		s.watch[d.Input].Close()
	case "changed":
		for _, of := range lines {
			select {
			case <-s.watch[of].C:
				fmt.Fprintf(&b, "%s: changed\n", of)
			default:
				fmt.Fprintf(&b, "%s: not changed\n", of)
			}
		}
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return b.String()
}

func (s *script) progress(b *strings.Builder, uid string) {
	p := s.follow[uid].Progress()
	fmt.Fprintf(b, "%s: %s", uid, p.State)
	if p.Loading {
		b.WriteString(", loading")
	}
	if p.Partial {
		b.WriteString(", partial")
	}
	if !p.Began.IsZero() {
		fmt.Fprintf(b, ", %s: gone %v, began %v, remaining %d, removed %d, blocked %d", name(p.Root), p.Gone, p.Began.Sub(s.start), p.Remaining, p.Removed, p.Blocked)
	}
	b.WriteString("\n")
	for _, o := range p.Waiting {
		fmt.Fprintf(b, "  %s since %v, waits for %q\n", name(o.Ref), o.Since.Sub(s.start), o.WaitsFor)
	}
}

func (s *script) lists(b *strings.Builder) {
	write := func(what string, w Waiting) {
		if w.Total == 0 {
			return
		}
		fmt.Fprintf(b, "%s: %d\n", strings.TrimSpace(what+" "+w.Name), w.Total)
		for _, o := range w.Oldest {
			fmt.Fprintf(b, "  %s since %v, waits for %q\n", name(o.Ref), o.Since.Sub(s.start), o.WaitsFor)
		}
	}
	write("terminating", s.m.Terminating(3))
	write("garbage", s.m.Garbage(3))
	write("garbage pods", s.m.GarbageOf("pods", 3))
	write("unknown owner", s.m.UnknownOwners(3))
	write("protected", s.m.Protected(3))
	for _, w := range s.m.Finalizers(2) {
		write("finalizer", w)
		if same := s.m.Finalizer(w.Name, 2); same.Total != w.Total || !slices.Equal(same.Oldest, w.Oldest) {
			fmt.Fprintf(b, "  differs: %+v\n", same)
		}
	}
	for _, w := range s.m.Agents(2) {
		write("agent", w)
	}
}

func name(r view.Ref) string {
	if r.Namespace == "" {
		return r.Resource + "/" + r.Name
	}
	return r.Namespace + ":" + r.Resource + "/" + r.Name
}

func relative(r view.Relative) string {
	text := name(r.Ref) + " " + r.State + " owners=" + strconv.Itoa(r.Owners) + " dependents=" + strconv.Itoa(r.Dependents) + " below=" + strconv.FormatUint(r.Below, 10)
	if r.Blocking {
		text += " blocking"
	}
	return text
}

// The scenarios of testdata/script.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		t.Helper()
		start := time.Unix(1_700_000_000, 0).UTC()
		s := &script{start: start, now: start, objects: map[string]Change{}, watch: map[string]*Watch{}, follow: map[string]*Follow{}}
		s.m = New(func() time.Time { return s.now })
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			return s.run(t, d)
		})
	})
}
