package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// page is what docs/performance.md says.
type page struct {
	options
	machine machine
	targets []measured
	linear  []*result // few and many objects
	limited *result   // with little memory
	live    *result   // a replay of objects that stay
	scale   []scaled
	peers   []compared
	stages  []stage
}

// scaled is a cascade with so many processors.
type scaled struct {
	processors int
	result     *result
}

// writer writes lines, and remembers the first failure.
type writer struct {
	w   io.Writer
	err error
}

func (w *writer) line(format string, a ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.w, format+"\n", a...)
	}
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "**no**"
}

// write writes the page.
func (p *page) write(out io.Writer) error {
	w := &writer{w: out}
	w.line("# Performance")
	w.line("")
	w.line("Made by `test/bench/run`, which anyone can start. What is measured is the ordinary path: objects of about 400 bytes")
	w.line("with random names, two labels and one owner; in a cascade one in a hundred survives by a second owner, and one in a")
	w.line("thousand is held by an external finalizer, which is answered. Processors decide over NATS, each removal has an entry of")
	w.line("its own in the log, with its cause, and every commit is synced to disk before it is acknowledged. The time runs from the")
	w.line("command until a fresh list shows only the survivors and all work is acknowledged. Outcomes are checked. A cascade begins")
	w.line("at rest, when compactions of what was made before are done, as that of PostgreSQL begins after a checkpoint. Cascades,")
	w.line("creations and latency are measured in turn, all of them %d times, and the run with the median rate, or ratio, counts: the", targetRounds)
	w.line("host does other things, too. For latency, a command, a request to bare NATS and a sync of as much follow one another: a")
	w.line("disk that is synced again at once is faster, by a tenth or two, than one that has been idle for a moment. Services as")
	w.line("processes of their own, and the benchmark, have a NATS account each, as in the configuration that `coppice nats-config` writes.")
	w.line("")
	w.line("%s.", p.machine)
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		if t, ok := p.machine.syncs[size]; ok {
			w.line("To append %s bytes to a file and sync it takes %.3g ms (median), %.3g ms (p99).", thousands(float64(size)), t[0].Seconds()*1000, t[1].Seconds()*1000)
		}
	}
	if p.divide > 1 {
		w.line("")
		w.line("**Everything here is %d times smaller than it should be**, for want of time: what is said to be reached is so at that", p.divide)
		w.line("size only. `test/bench/run` without `--divide` takes half an hour.")
	}
	p.writeTargets(w)
	p.writeLinear(w)
	p.writeMissed(w)
	p.writeBudgets(w)
	p.writeScale(w)
	p.writePeers(w)
	p.writeCommands(w)
	return w.err
}

func (p *page) writeTargets(w *writer) {
	w.line("")
	w.line("## Targets")
	w.line("")
	w.line("| benchmark | objects | wanted | measured | reached | CPU an object | services as processes |")
	w.line("|---|---|---|---|---|---|---|")
	for _, m := range p.targets {
		split := ""
		if m.split != nil {
			share := m.split.ObjectsPerSecond / m.result.ObjectsPerSecond
			split = fmt.Sprintf("%s objects/s, %.0f%%", thousands(m.split.ObjectsPerSecond), 100*share)
		}
		got := m.got(m.result)
		if m.most > m.least {
			got += fmt.Sprintf("; of all runs %.2fx to %.2fx", m.least, m.most)
		}
		w.line("| %s | %s | %s | %s | %s | %.1f us | %s |", m.name, thousands(float64(m.result.Objects)), m.wants, got, yes(m.reached(m.result)), cost(m.result), split)
	}
}

func (p *page) writeLinear(w *writer) {
	if len(p.linear) > 0 {
		few, many := p.linear[0], p.linear[len(p.linear)-1]
		inTime, inCPU := p.growth()
		w.line("| cost of an object in a wide cascade of %s against one of %s | | within %.1fx | %.2fx the time, %.2fx the CPU | %s | %.1f and %.1f us | |",
			thousands(float64(many.Objects)), thousands(float64(few.Objects)), linearly, inTime, inCPU, yes(p.linearly()), cost(many), cost(few))
		w.line("")
		w.line("A wide cascade by size, one after the other; the median of %d, of less than a million of %d:", targetRounds, targetRounds*moreOfFew)
		w.line("")
		w.line("| objects | objects/s | CPU an object |")
		w.line("|---|---|---|")
		for _, r := range p.linear {
			w.line("| %s | %s | %.1f us |", thousands(float64(r.Objects)), thousands(r.ObjectsPerSecond), cost(r))
		}
	}
	if p.live != nil {
		w.line("")
		w.line("A log of %s objects that stay, of which a replay leaves nothing out, is replayed at %s events/s: %.1f us each.",
			thousands(float64(p.live.Objects)), thousands(p.live.ObjectsPerSecond), cost(p.live))
	}
	if p.limited != nil {
		w.line("")
		w.line("Under GOMEMLIMIT=512MiB a cascade of %s objects takes %.1f s, with %s MiB resident at peak.",
			thousands(float64(p.limited.Objects)), p.limited.Seconds, thousands(float64(p.limited.PeakRSSBytes)/mib))
	}
}

// growth is how much more an object takes among many than among few: of time,
// and of CPU.
func (p *page) growth() (inTime, inCPU float64) {
	few, many := p.linear[0], p.linear[len(p.linear)-1]
	return few.ObjectsPerSecond / many.ObjectsPerSecond, cost(many) / cost(few)
}

// linearly reports whether an object takes no more of either.
func (p *page) linearly() bool {
	inTime, inCPU := p.growth()
	return inTime <= linearly && inCPU <= linearly
}

// linearly is up to which growth cascades are linear.
const linearly = 1.3

// writeMissed says what is in the way of what is not reached, once for targets
// that have the same in it.
func (p *page) writeMissed(w *writer) {
	names := map[string][]string{}
	var texts []string
	for _, m := range p.targets {
		if m.missed == "" || m.reached(m.result) {
			continue
		}
		if names[m.missed] == nil {
			texts = append(texts, m.missed)
		}
		names[m.missed] = append(names[m.missed], "**"+m.name+"**")
	}
	for _, text := range texts {
		w.line("")
		w.line("%s: not reached.", strings.Join(names[text], "; "))
		w.line("%s", text)
	}
	if len(p.linear) > 0 && !p.linearly() {
		w.line("")
		w.line("**cost of an object**: not reached.")
		w.line("%s", missedLinear)
	}
}

func (p *page) writeBudgets(w *writer) {
	for _, m := range p.targets {
		if m.profiled == nil {
			continue
		}
		r, sum := m.profiled.result, m.profiled.root.budget()
		w.line("")
		w.line("## Where the time goes: %s", m.name)
		w.line("")
		w.line("CPU of all threads for each of %s objects, by a profile of the run ([flame graph](%s)).", thousands(float64(r.Objects)), m.profiled.file())
		w.line("")
		w.line("| stage | us an object | share |")
		w.line("|---|---|---|")
		names := make([]string, 0, len(sum))
		for name := range sum {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(sum[b], sum[a]) })
		for _, name := range names {
			w.line("| %s | %.2f | %.0f%% |", name, sum[name]*1000/float64(r.Objects), 100*sum[name]/m.profiled.root.value)
		}
		w.line("| together; the process has used %.2f us | %.2f | 100%% |", cost(r), m.profiled.root.value*1000/float64(r.Objects))
	}
	if len(p.stages) > 0 {
		w.line("")
		w.line("## Stages, one by one")
		w.line("")
		w.line("`go test ./services/graph -bench Stages`: 4,000 objects at a time, on disk, one thread, nothing beside.")
		w.line("")
		w.line("| stage | us an object | bytes allocated | allocations |")
		w.line("|---|---|---|---|")
		for _, s := range p.stages {
			w.line("| %s | %.2f | %.0f | %.2f |", s.name, s.us, s.bytes, s.all)
		}
	}
}

func (p *page) writeScale(w *writer) {
	if len(p.scale) == 0 {
		return
	}
	w.line("")
	w.line("## More processors")
	w.line("")
	w.line("A wide cascade in the background, each service a process of its own, all on this machine. What more processors can add")
	w.line("is bounded by the cores that the writer and the NATS server leave to them.")
	w.line("")
	w.line("| processors | objects/s | CPU an object | commits | objects in a commit |")
	w.line("|---|---|---|---|---|")
	for _, s := range p.scale {
		w.line("| %d | %s | %.1f us | %d | %s |", s.processors, thousands(s.result.ObjectsPerSecond), cost(s.result), s.result.Commits,
			thousands(float64(s.result.Objects)/float64(max(1, s.result.Commits))))
	}
}

func (p *page) writePeers(w *writer) {
	if len(p.peers) == 0 {
		return
	}
	w.line("")
	w.line("## PostgreSQL")
	w.line("")
	w.line("ON DELETE CASCADE with an indexed uuid owner, rows of the same size, default durability, alternating with Coppice in the")
	w.line("same run; the median of %d. It has no finalizers, no events and no causes, and does it all in one transaction.", p.rounds)
	w.line("")
	w.line("| cascade | rows | PostgreSQL | Coppice | ratio |")
	w.line("|---|---|---|---|---|")
	for _, c := range p.peers {
		w.line("| %s | %s | %s rows/s | %s objects/s | %.2f |", c.name, thousands(float64(c.rows)), thousands(c.theirs), thousands(c.ours), c.ours/c.theirs)
	}
}

func (p *page) writeCommands(w *writer) {
	w.line("")
	w.line("## Commands and outputs")
	for _, m := range p.targets {
		w.line("")
		w.line("`%s`", m.command)
		w.line("")
		w.line("%s.", p.output(m.result))
		if m.split != nil {
			w.line("")
			w.line("With `--processes`: %s.", p.output(m.split))
		}
	}
}

// output is what a benchmark printed, in words.
func (p *page) output(r *result) string {
	list := []string{fmt.Sprintf("%.3f s", r.Seconds), thousands(r.ObjectsPerSecond) + "/s"}
	if r.P99 > 0 {
		list = append(list, fmt.Sprintf("p50 %.3g ms and p99 %.3g ms", r.P50, r.P99))
	}
	list = append(list, fmt.Sprintf("%.2f s of CPU", r.CPUSeconds), fmt.Sprintf("%s MiB resident at peak", thousands(float64(r.PeakRSSBytes)/mib)))
	if r.Commits > 0 {
		list = append(list, fmt.Sprintf("%s commits with %s MiB", thousands(float64(r.Commits)), thousands(float64(r.BytesLogged)/mib)))
	}
	return strings.Join(list, ", ") + ", version " + r.Version
}
