package overview

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

// Limits of an overview.
const (
	maxDeletions = 20
	maxLongest   = 10
	maxWarnings  = 50
	maxExamples  = 5
)

// How often parts are read at most, and for how long.
const (
	statusInterval = 2 * time.Second
	slowInterval   = 5 * time.Second
	readTimeout    = 5 * time.Second
)

// Config is what a Builder needs.
type Config struct {
	// Client is the client of the user in the realm.
	Client client.Interface
	// Mirror is the mirror of the realm for this user.
	Mirror *mirror.Mirror
	// Now is the clock.
	Now func() time.Time
	// Timeout is the longest time for which one part is read; 5 s if it is not set.
	Timeout time.Duration
}

// Builder builds overviews of one realm for one user. It is safe for concurrent use.
type Builder struct {
	c         Config
	status    part[*client.Status]
	consumers part[consumers]
	parked    part[*client.ParkedPage]
	brakes    part[[]*client.BrakeStatus]
	warnings  part[[]client.Warning]
	storage   part[*client.Storage]
	unknown   part[map[string]unknownOwner]
}

// New returns a builder.
func New(c Config) *Builder {
	c.Timeout = cmp.Or(c.Timeout, readTimeout)
	b, in := &Builder{c: c}, c.Client.Operations()
	b.status = part[*client.Status]{interval: statusInterval, read: func(ctx context.Context) (*client.Status, error) { return c.Client.Status(ctx) }}
	b.consumers = part[consumers]{interval: slowInterval, read: b.readConsumers}
	b.parked = part[*client.ParkedPage]{interval: slowInterval, read: func(ctx context.Context) (*client.ParkedPage, error) { return in.ListParked(ctx) }}
	b.brakes = part[[]*client.BrakeStatus]{interval: slowInterval, read: func(ctx context.Context) ([]*client.BrakeStatus, error) { return in.Brakes(ctx) }}
	b.warnings = part[[]client.Warning]{interval: slowInterval, read: func(ctx context.Context) ([]client.Warning, error) { return c.Client.Warnings(ctx, "") }}
	b.storage = part[*client.Storage]{interval: slowInterval, read: func(ctx context.Context) (*client.Storage, error) { return in.Storage(ctx) }}
	b.unknown = part[map[string]unknownOwner]{interval: statusInterval, read: b.readUnknown}
	return b
}

// consumers are the programs that receive calls: of finalizers, and of agents by their resources.
type consumers struct{ finalizers, agents map[string]lookup.Consumer }

// consumersAtOnce is the number of consumers in one request.
const consumersAtOnce = 100

// readConsumers reads the consumers of the finalizers that objects have, and of the agents for which objects wait.
func (b *Builder) readConsumers(ctx context.Context) (consumers, error) {
	found := consumers{finalizers: map[string]lookup.Consumer{}, agents: map[string]lookup.Consumer{}}
	var finalizers, agents []string
	for name := range b.c.Mirror.FinalizersInUse() {
		finalizers = append(finalizers, name)
	}
	for _, w := range b.c.Mirror.Agents(0) {
		agents = append(agents, w.Name)
	}
	slices.Sort(finalizers)
	read := func(names []string, option func([]string) client.ConsumersOption, to map[string]lookup.Consumer) error {
		for some := range slices.Chunk(names, consumersAtOnce) {
			reply, err := b.c.Client.Operations().Consumers(ctx, option(some))
			if err != nil {
				return err
			}
			for i, s := range reply.GetConsumers()[:min(len(some), len(reply.GetConsumers()))] {
				to[some[i]] = lookup.ConsumerOf(s, b.c.Now())
			}
		}
		return nil
	}
	if err := read(slices.Compact(finalizers), func(names []string) client.ConsumersOption { return client.ForFinalizers(names) }, found.finalizers); err != nil {
		return consumers{}, err
	}
	err := read(agents, func(names []string) client.ConsumersOption {
		var of client.ForAgents
		for _, name := range names {
			of = append(of, client.ParseResource(name))
		}
		return of
	}, found.agents)
	if err != nil {
		return consumers{}, err
	}
	return found, nil
}

// parts are what was read for one overview. A part that could not be read is nil, or what was read before.
type parts struct {
	status    *client.Status
	consumers consumers
	parked    *client.ParkedPage
	brakes    []*client.BrakeStatus
	warnings  []client.Warning
	storage   *client.Storage
	unknown   map[string]unknownOwner
	missing   []view.Missing
}

// read reads all parts at once.
func (b *Builder) read(ctx context.Context) parts {
	var p parts
	var mu sync.Mutex
	var all sync.WaitGroup
	start := func(name string, read func() error) {
		all.Go(func() {
			if err := read(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				p.missing = append(p.missing, view.Missing{Part: name, Why: why(err)})
			}
		})
	}
	start("pending work", func() (err error) { p.status, err = b.status.get(ctx, b.c.Now, b.c.Timeout); return err })
	start("consumers of finalizers and agents", func() (err error) {
		p.consumers, err = b.consumers.get(ctx, b.c.Now, b.c.Timeout)
		return err
	})
	start("parked work", func() (err error) { p.parked, err = b.parked.get(ctx, b.c.Now, b.c.Timeout); return err })
	start("brakes", func() (err error) { p.brakes, err = b.brakes.get(ctx, b.c.Now, b.c.Timeout); return err })
	start("warnings", func() (err error) { p.warnings, err = b.warnings.get(ctx, b.c.Now, b.c.Timeout); return err })
	start("storage", func() (err error) { p.storage, err = b.storage.get(ctx, b.c.Now, b.c.Timeout); return err })
	all.Wait()
	if b.c.Mirror.UnknownOwners(0).Total > 0 && p.mayBeUnknown() {
		start("unknown owners", func() (err error) { p.unknown, err = b.unknown.get(ctx, b.c.Now, b.c.Timeout); return err })
		all.Wait()
	}
	slices.SortFunc(p.missing, func(a, b view.Missing) int { return cmp.Compare(a.Part, b.Part) })
	return p
}

// Overview returns the overview of the realm. services are those whose health the console reads.
func (b *Builder) Overview(ctx context.Context, services []view.Service) *view.Overview {
	p := b.read(ctx)
	m := b.c.Mirror
	longest := m.Terminating(maxLongest)
	o := &view.Overview{
		Realm: b.c.Client.Realm(), Revision: m.Revision(), Time: b.c.Now().UTC(), Loading: !m.Loaded(),
		Objects: m.Objects(), Terminating: longest.Total, Garbage: m.Garbage(0).Total, Paused: p.status.GetPaused(),
		Longest: longest.Oldest, Services: services, Missing: p.missing,
	}
	o.Deletions, o.DeletionsTotal = m.Deletions(maxDeletions)
	o.Finalizers = b.inUse(p)
	o.Warnings = slices.DeleteFunc(newest(p.warnings), b.over)
	o.WarningsTotal = len(o.Warnings)
	o.Warnings = o.Warnings[:min(len(o.Warnings), maxWarnings)]
	if s := p.storage; s != nil {
		o.Storage = &view.Storage{
			LogBytes: s.GetLogBytes(), StateBytes: s.GetStateBytes(), ArchiveBytes: s.GetArchiveBytes(), Archived: s.GetArchived(), ArchiveError: s.GetArchiveError(),
			DiskBytes: s.GetDiskBytes(), DiskFreeBytes: s.GetDiskFreeBytes(), CutWaits: s.GetCutWaits(),
		}
	}
	o.Stuck = b.stuck(p)
	return o
}

// inUse returns the external finalizers that objects have, ordered by name.
func (b *Builder) inUse(p parts) []view.FinalizerInUse {
	byName := map[string]*view.FinalizerInUse{}
	for name, objects := range b.c.Mirror.FinalizersInUse() {
		byName[name] = &view.FinalizerInUse{Name: name, Objects: objects}
	}
	for _, w := range b.c.Mirror.Finalizers(1) {
		if f := byName[w.Name]; f != nil { // it may have changed since
			f.Terminating, f.Oldest = w.Total, since(w)
		}
	}
	var list []view.FinalizerInUse
	for name, f := range byName {
		is, read := p.consumers.finalizers[name]
		f.Consumer, f.Says = is.State.String(), is.Text()
		if !read && p.consumers.finalizers != nil {
			f.Says = "unknown: the state of its consumer is not read yet"
		}
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b view.FinalizerInUse) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// since returns since when the first of the objects waits, nil if there are none.
func since(w mirror.Waiting) *time.Time {
	if len(w.Oldest) == 0 {
		return nil
	}
	return &w.Oldest[0].Since
}

// newest returns the newest warning of each object and reason, the newest first.
func newest(all []client.Warning) []view.Warning {
	type about struct{ resource, namespace, name, uid, reason string }
	last := map[about]client.Warning{}
	for _, w := range all {
		key := about{w.Resource, w.Namespace, w.Name, w.UID, w.Reason}
		if is, known := last[key]; !known || w.Time.After(is.Time) {
			last[key] = w
		}
	}
	var list []view.Warning
	for _, w := range last {
		list = append(list, view.Warning{Ref: refOf(w), Reason: w.Reason, Message: w.Message, Time: w.Time})
	}
	slices.SortFunc(list, func(a, b view.Warning) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// over reports whether a warning is about an object that was removed: it needs nothing any more. The mirror of a user who
// may not get all objects cannot tell.
func (b *Builder) over(w view.Warning) bool {
	m := b.c.Mirror
	return w.UID != "" && m.Loaded() && !m.Partial() && m.State(w.UID) == mirror.Absent
}

// refOf names the object of a warning, and nothing for one about the realm.
func refOf(w client.Warning) view.Ref {
	if w.UID == "" {
		return view.Ref{}
	}
	return view.Ref{Resource: w.Resource, Namespace: w.Namespace, Name: w.Name, UID: w.UID}
}
