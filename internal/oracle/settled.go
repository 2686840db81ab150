package oracle

import (
	"context"
	"fmt"
	"strings"
)

// Settler is a server with a collector.
type Settler interface {
	Server
	// Settle returns when the collector has no work left.
	Settle(context.Context) error
}

func (s *Script) settle(ctx context.Context) error {
	server, is := s.server.(Settler)
	if !is {
		return fmt.Errorf("there is no collector")
	}
	return server.Settle(ctx)
}

// settled plays requests, waits until the collector has no work left, and prints all
// objects that were created. At a line "settle" it waits for the collector, too.
func (s *Script) settled(ctx context.Context, lines []string) (string, error) {
	s.newWorld()
	for _, line := range append(lines, "settle") {
		step := func() error { return s.given(ctx, []string{line}) }
		if line == "settle" {
			step = func() error { return s.settle(ctx) }
		}
		if err := step(); err != nil {
			return "", err
		}
	}
	var rows [][]string
	for _, of := range s.created {
		is, err := s.stored(ctx, s.at(of.kind, of.name))
		if err != nil {
			return "", err
		}
		text := "gone"
		if is != nil {
			text = (&outcome{world: s.namespace()}).summary(is)
		}
		rows = append(rows, []string{of.kind.Plural + "/" + of.name, text})
	}
	return columns(rows), nil
}

// probe is an object whose reference to the owner a class-table classifies. It may have
// another owner, or a dependent.
type probe struct {
	name  string
	other string // another owner, if there is one
	child bool
}

func probes() []probe {
	return []probe{{name: "alone"}, {name: "held", other: "Rack/holder"}, {name: "beside", other: "Rack/absent"}, {name: "parent", child: true}}
}

// classTable prints what the collector does with objects that have a reference, for each
// state of the owner. A line names the state of the owner and the steps that lead to it:
//
//	removed: create racks/owner; dependents Rack/owner; delete racks/owner
//
// The step "dependents" creates the probes with this reference, and the next step begins
// when the collector has seen them.
func (s *Script) classTable(ctx context.Context, lines []string) (string, error) {
	type row struct {
		label string
		world int
		steps []string
	}
	var rows []row
	for _, line := range lines {
		label, steps, is := strings.Cut(line, ": ")
		if !is {
			return "", fmt.Errorf("%s: a line is what has become of the owner, a colon, and how", line)
		}
		s.newWorld()
		r := row{label: label, world: s.world, steps: strings.Split(steps, "; ")}
		for i, step := range r.steps {
			reference, here := strings.CutPrefix(step, "dependents ")
			if here {
				r.steps = r.steps[i+1:]
				if err := s.given(ctx, probesOf(reference)); err != nil {
					return "", err
				}
				break
			}
			if err := s.given(ctx, []string{step}); err != nil {
				return "", err
			}
		}
		rows = append(rows, r)
	}
	last := s.world
	defer func() { s.world = last }()
	if err := s.settle(ctx); err != nil {
		return "", err
	}
	for _, r := range rows {
		s.world = r.world
		if err := s.given(ctx, r.steps); err != nil {
			return "", err
		}
	}
	if err := s.settle(ctx); err != nil {
		return "", err
	}
	// The columns have fixed widths, so that a deviation can replace a cell.
	const format = "%-40s  %-8s  %-8s  %-8s  %-10s  %-8s  %-8s  %-8s  %-10s"
	line := func(cells ...any) string { return strings.TrimRight(fmt.Sprintf(format, cells...), " ") + "\n" }
	out := line("the owner is", "alone", "held", "beside", "parent", "alone", "held", "beside", "parent")
	for _, r := range rows {
		s.world = r.world
		cells := []any{r.label}
		for _, kind := range Kinds() {
			for _, p := range probes() {
				is, err := s.stored(ctx, s.at(kind, p.name))
				if err != nil {
					return "", err
				}
				cells = append(cells, s.became(p, is))
			}
		}
		out += line(cells...)
	}
	return out, nil
}

func probesOf(reference string) []string {
	lines := []string{"create racks/holder"}
	for _, kind := range Kinds() {
		for _, p := range probes() {
			at, owners := kind.Plural+"/"+p.name, reference
			if p.other != "" {
				owners += ", " + p.other
			}
			lines = append(lines, fmt.Sprintf("create %s owners=(%s)", at, owners))
			if p.child {
				lines = append(lines, fmt.Sprintf("create %s-child owners=(%s/%s blocking=true) finalizers=(example.com/x)", at, kind.Kind, p.name))
			}
		}
	}
	return lines
}

// became describes what the collector did with a probe: "stripped" removed the reference
// to the owner, "cleaned" the other reference, "orphaned" all references.
func (s *Script) became(p probe, is Object) string {
	if is == nil {
		return "goes"
	}
	left := (&outcome{world: s.namespace()}).summary(is)
	owners := (&outcome{world: s.namespace()}).owners(is.list("ownerReferences"))
	switch {
	case strings.HasPrefix(left, "generation=2 deleted grace=0 owners=[") && strings.HasSuffix(left, "] finalizers=[foregroundDeletion]"):
		return "foreground"
	case left == "generation=1":
		return "orphaned"
	case left != "generation=1 owners=["+owners+"]":
		return left
	case p.other != "" && owners == p.other:
		return "stripped"
	case p.other != "" && !strings.HasSuffix(owners, ", "+p.other):
		return "cleaned"
	}
	return "stays"
}
