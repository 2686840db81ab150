package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// suite runs benchmarks.
type suite struct {
	options
	dir           string
	coppice, self string // programs
	kept          *kept  // nil: nothing is
}

// sized returns a size, or with -quick a part of it.
func (s *suite) sized(n int) int {
	if s.divide <= 1 {
		return n
	}
	return max(200, n/s.divide)
}

// bench runs one benchmark.
func (s *suite) bench(ctx context.Context, env []string, args ...string) (*result, error) {
	key := strings.Join(append(append([]string{}, env...), args...), " ")
	if r := s.kept.find(key); r != nil {
		return r, nil
	}
	shown, command := s.command(args)
	fmt.Fprintln(os.Stderr, shown)
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "-o", "json", "--dir", s.dir)...) //nolint:gosec // what it has built
	cmd.Env = append(os.Environ(), env...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", shown, err, errors.String())
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", shown, err, out)
	}
	return &r, s.kept.add(key, &r)
}

// command returns the command that a reader runs for a benchmark, and the one that the suite runs.
func (s *suite) command(args []string) (shown string, command []string) {
	text := strings.Join(args, " ")
	if slices.ContainsFunc(ones, func(o one) bool { return o.name == args[0] }) {
		return "go run ./test/bench one " + text, append([]string{s.self, "one", "--coppice", s.coppice}, args...)
	}
	return "coppice bench " + text, append([]string{s.coppice, "bench"}, args...)
}

// afresh returns the suite without kept results.
func (s *suite) afresh() *suite {
	again := *s
	again.kept = nil
	return &again
}

// wanted reports whether a target is selected.
func (s *suite) wanted(name string) bool { return strings.Contains(name, s.only) }

// measured is a target with its results.
type measured struct {
	target
	command string
	result  *result
	split   *result // with services as processes of their own
	// least and most are the smallest and largest figure of all runs, for a target that
	// has one.
	least, most float64
	// profiled is a separate run, because profiling has a cost.
	profiled *profiled
}

// targets measures targets. Other load on the machine must affect all of them alike, so
// they are measured in turn, several times, and the medians count. The longest are
// measured once.
func (s *suite) targets(ctx context.Context, list []target) (all []measured, err error) {
	results := make([][]*result, len(list))
	for round := range targetRounds {
		for i, t := range list {
			if round > 0 && t.once {
				continue
			}
			r, err := s.bench(ctx, nil, s.args(t)...)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], r)
		}
	}
	for i, t := range list {
		figure := objectsPerSecond
		if t.figure != nil {
			figure = t.figure
		}
		m, err := s.target(ctx, t, middle(results[i], figure))
		if err != nil {
			return nil, err
		}
		if n := len(results[i]); t.figure != nil { // they are in order
			m.least, m.most = figure(results[i][0]), figure(results[i][n-1])
		}
		all = append(all, m)
	}
	return all, nil
}

// targetRounds is the number of runs of which the median is taken.
const targetRounds = 3

// middle returns the result with the median of a figure.
func middle(results []*result, figure func(*result) float64) *result {
	slices.SortFunc(results, func(a, b *result) int { return cmp.Compare(figure(a), figure(b)) })
	return results[len(results)/2]
}

func objectsPerSecond(r *result) float64 { return r.ObjectsPerSecond }

// args are the arguments of a target's benchmark.
func (s *suite) args(t target) []string {
	return append(append([]string{}, t.args...), strconv.Itoa(s.sized(t.size)))
}

// target measures the additional figures of a target.
func (s *suite) target(ctx context.Context, t target, r *result) (m measured, err error) {
	args := s.args(t)
	shown, command := s.command(args)
	m = measured{target: t, command: shown, result: r}
	if t.split {
		if m.split, err = s.bench(ctx, nil, append(args, "--processes")...); err != nil {
			return m, err
		}
	}
	if t.profile != "" {
		dir := filepath.Join(s.dir, "profile-"+t.profile)
		r, err := s.afresh().bench(ctx, nil, append(args, "--profile", dir)...)
		if err != nil {
			return m, err
		}
		p, err := profile(t.profile, command[0], dir, r)
		if err != nil {
			return m, err
		}
		m.profiled = &p
	}
	return m, nil
}

// measure measures everything.
func (s *suite) measure(ctx context.Context) (*page, error) {
	p := &page{options: s.options, machine: thisMachine(s.dir)}
	wanted := slices.DeleteFunc(targets(), func(t target) bool { return !s.wanted(t.name) })
	var err error
	if p.targets, err = s.targets(ctx, wanted); err != nil {
		return nil, err
	}
	if s.wanted("cost per object") {
		if p.linear, err = s.linear(ctx); err != nil {
			return nil, err
		}
	}
	if s.wanted("replay of what stays") {
		if p.live, err = s.bench(ctx, nil, "replay", "--live", "--events", strconv.Itoa(s.sized(2*million))); err != nil {
			return nil, err
		}
	}
	if s.wanted("memory limit") {
		if p.limited, err = s.bench(ctx, []string{"GOMEMLIMIT=512MiB"}, "cascade", "--objects", strconv.Itoa(s.sized(3*million))); err != nil {
			return nil, err
		}
	}
	if s.wanted("scale-out") {
		for _, n := range []int{1, 2, 4, 8} {
			r, err := s.bench(ctx, nil, "cascade", "--processes", "--processors", strconv.Itoa(n), "--objects", strconv.Itoa(s.sized(million)))
			if err != nil {
				return nil, err
			}
			p.scale = append(p.scale, scaled{n, r})
		}
	}
	if s.wanted("stages") {
		if p.stages, err = s.stages(ctx); err != nil {
			return nil, err
		}
	}
	if s.peers {
		if p.peers, err = s.comparePostgres(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// linear measures wide cascades of three sizes in turn. The largest runs as often as
// targets do, the others moreOfFew times as often, because their times vary more.
func (s *suite) linear(ctx context.Context) (medians []*result, err error) {
	sizes := []int{10_000, 100_000, million, 3 * million}
	all := make([][]*result, len(sizes))
	for range targetRounds {
		for i, n := range sizes {
			times := 1
			if n < million {
				times = moreOfFew
			}
			for range times {
				r, err := s.bench(ctx, nil, "cascade", "--objects", strconv.Itoa(s.sized(n)))
				if err != nil {
					return nil, err
				}
				all[i] = append(all[i], r)
			}
		}
	}
	for _, l := range all {
		medians = append(medians, middle(l, objectsPerSecond))
	}
	return medians, nil
}

// moreOfFew is the factor by which cascades of less than a million objects run more
// often.
const moreOfFew = 3

// stage is the result of a micro-benchmark of a stage, for each object.
type stage struct {
	name           string
	us, bytes, all float64
}

// stages runs the micro-benchmarks of the stages.
func (s *suite) stages(ctx context.Context) (list []stage, err error) {
	times := "50x"
	if s.quick {
		times = "1x"
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./services/graph", "-run", "^$", "-bench", "Stages", "-benchtime", times)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("stages: %w: %s", err, out)
	}
	return parseStages(string(out)), nil
}

// parseStages reads the output of BenchmarkStages, which has 4,000 objects in each
// operation.
func parseStages(out string) (list []stage) {
	const objects = 4000
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		name, ok := strings.CutPrefix(line, "BenchmarkStages/")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "-")
		st := stage{name: strings.ReplaceAll(name, "_", " ")}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			switch fields[i+1] {
			case "ns/object":
				st.us = v / 1000
			case "B/op":
				st.bytes = v / objects
			case "allocs/op":
				st.all = v / objects
			}
		}
		list = append(list, st)
	}
	return list
}
