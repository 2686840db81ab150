package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// Apply is a verb that only an Applier has.
const Apply Verb = "apply"

// Applier creates, applies and patches objects as a user of kubectl does.
type Applier interface {
	// Write creates, applies or patches an object. An error ends the script. A refusal is
	// no error.
	Write(context.Context, Write) (*Written, error)
	// Read returns an object, nil if there is none.
	Read(ctx context.Context, as Target, name string) (Object, error)
}

// Write is one step: a create or an apply of a manifest, or a merge patch of another client.
type Write struct {
	Verb Verb // Create, Apply or Patch
	As   Target
	Name string
	Body []byte // JSON: a manifest or a merge patch
}

// Written is what kubectl reports of a step.
type Written struct {
	Code int // the exit code
	// Said is the last word of the output, such as configured, or the reason of a refusal.
	Said   string
	Warned bool
}

// Target is a kind of objects, and the way in which they are applied.
type Target struct {
	APIVersion, Kind string
	ServerSide       bool
}

// String returns the target as tables have it.
func (as Target) String() string {
	if as.ServerSide {
		return as.Kind + " --server-side"
	}
	return as.Kind
}

// Targets returns all targets. For a Widget, a custom resource, kubectl computes a JSON merge
// patch, and for a ConfigMap a strategic merge patch.
func Targets() []Target {
	return []Target{
		{apiVersion, "Widget", false},
		{apiVersion, "Widget", true},
		{"v1", "ConfigMap", false},
		{"v1", "ConfigMap", true},
	}
}

// fieldTargets returns the targets whose objects have a field. A ConfigMap has no spec.
func fieldTargets(field string) []Target {
	return slices.DeleteFunc(Targets(), func(as Target) bool {
		return as.Kind == "ConfigMap" && strings.HasPrefix(field, "spec")
	})
}

// apply plays a table or the steps of an object. The argument is the field of the table, or
// the name of the steps. Steps with a name such as spec.list are those of Widgets only.
func (s *Script) apply(ctx context.Context, d *datadriven.TestData, lines []string) (string, error) {
	play, is := map[string]func(context.Context, string, []string) (string, error){
		"apply-table": s.applyTable, "apply-steps": s.applySteps,
	}[d.Cmd]
	switch {
	case !is:
		return "", fmt.Errorf("there is no command %q", d.Cmd)
	case len(d.CmdArgs) != 1:
		return "", fmt.Errorf("%s has one argument, a field or a name, and not %d", d.Cmd, len(d.CmdArgs))
	}
	return play(ctx, d.CmdArgs[0].Key, lines)
}

// applyTable applies, patches and applies an object for each combination of the values in its
// input. The argument is the field that has these values.
func (s *Script) applyTable(ctx context.Context, field string, lines []string) (string, error) {
	values := map[string][]string{}
	for _, line := range lines {
		step, list, _ := strings.Cut(line, " ")
		for value := range strings.SplitSeq(list, "|") {
			values[step] = append(values[step], strings.TrimSpace(value))
		}
	}
	if len(values) != 3 || values["first"] == nil || values["other"] == nil || values["second"] == nil {
		return "", fmt.Errorf("the table of %s needs values of first, other and second", field)
	}
	rows := [][]string{{"first", "other", "second"}}
	targets := fieldTargets(field)
	for _, as := range targets {
		rows[0] = append(rows[0], as.String())
	}
	for _, first := range values["first"] {
		for _, other := range values["other"] {
			for _, second := range values["second"] {
				row := []string{first, other, second}
				for _, as := range targets {
					cell, err := s.applied(ctx, as, field, row)
					if err != nil {
						return "", fmt.Errorf("%s: %s: %w", as, strings.Join(row, ", "), err)
					}
					row = append(row, cell)
				}
				rows = append(rows, row)
			}
		}
	}
	return columns(rows), nil
}

// applied applies the first value of a field, patches it, applies the last one, and describes
// the object.
func (s *Script) applied(ctx context.Context, as Target, field string, values []string) (string, error) {
	name := s.nextName()
	var last *Written
	for i, verb := range []Verb{Apply, Patch, Apply} {
		if values[i] == "nothing" {
			continue
		}
		o := Object{}
		if err := setField(o, field, values[i]); err != nil {
			return "", err
		}
		var err error
		if last, err = s.write(ctx, verb, as, name, o); err != nil {
			return "", err
		}
		if i < 2 && last.Code != 0 {
			return "", fmt.Errorf("step %d: exit code %d, %s", i+1, last.Code, last.Said)
		}
	}
	o, err := s.applier.Read(ctx, as, name)
	if err != nil {
		return "", err
	}
	return last.prefix("configured", "serverside-applied") + fieldOf(o, field), nil
}

// applySteps plays steps with an object of each target, and describes the object after each.
func (s *Script) applySteps(ctx context.Context, name string, lines []string) (string, error) {
	if len(lines) == 0 {
		return "", fmt.Errorf("%s has no steps", name)
	}
	targets := fieldTargets(name)
	names := map[Target]string{}
	for _, as := range targets {
		names[as] = s.nextName()
	}
	rows := [][]string{{"step", "of", "result"}}
	for i, line := range lines {
		verb, body, _ := strings.Cut(line, " ")
		if !slices.Contains([]Verb{Create, Apply, Patch}, Verb(verb)) {
			return "", fmt.Errorf("there is no step %q", verb)
		}
		for _, as := range targets {
			o, err := ReadObject([]byte(body))
			if err != nil {
				return "", err
			}
			if as.Kind == "ConfigMap" {
				delete(o, "spec")
			}
			w, err := s.write(ctx, Verb(verb), as, names[as], o)
			if err != nil {
				return "", fmt.Errorf("%s: %s: %w", as, line, err)
			}
			stored, err := s.applier.Read(ctx, as, names[as])
			if err != nil {
				return "", err
			}
			rows = append(rows, []string{fmt.Sprintf("%d %s", i+1, verb), as.String(), w.prefix() + describe(stored)})
		}
	}
	return columns(rows), nil
}

// write writes an object, after it has completed its manifest.
func (s *Script) write(ctx context.Context, verb Verb, as Target, name string, o Object) (*Written, error) {
	if verb != Patch {
		o["apiVersion"], o["kind"] = as.APIVersion, as.Kind
		if o.metadata() == nil {
			o["metadata"] = map[string]any{}
		}
		o.metadata()["name"] = name
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write an object: %w", err)
	}
	return s.applier.Write(ctx, Write{Verb: verb, As: as, Name: name, Body: body})
}

// nextName returns a name that no object has.
func (s *Script) nextName() string {
	s.newWorld()
	return s.namespace()
}

// prefix describes the exit code and what was reported, unless it is expected.
func (w *Written) prefix(expected ...string) string {
	text := w.Said
	if w.Code != 0 {
		text = fmt.Sprintf("exit %d %s", w.Code, w.Said)
	} else if slices.Contains(expected, w.Said) {
		text = ""
	}
	if w.Warned {
		text = strings.TrimPrefix(text+", warned", ", ")
	}
	if text != "" {
		text += ": "
	}
	return text
}
