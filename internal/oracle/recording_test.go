package oracle_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/oracle"
)

// The checksum of a script depends on its requests, and not on comments, deviations and races.
func TestSum(t *testing.T) {
	t.Parallel()
	sum := func(script string) *oracle.Sum {
		var sum oracle.Sum
		datadriven.RunTestFromString(t, script, func(_ *testing.T, d *datadriven.TestData) string {
			sum.Add(d)
			return d.Expected
		})
		return &sum
	}
	const script = "each\ngiven create widgets/a\ndelete widgets/a\n----\n"
	recorded := sum(script).Of("Kubernetes v1")
	for change, is := range map[string]struct {
		script string
		stale  bool
	}{
		"none":      {script, false},
		"comment":   {"# A4.8: why.\n" + script, false},
		"output":    {script + "200; gone\n", false},
		"deviation": {strings.Replace(script, "----", `coppice says "202" for "200": why`+"\n----", 1), false},
		"race":      {strings.Replace(script, "----", `kubernetes may say "202" for "200": why`+"\n----", 1), false},
		"argument":  {strings.Replace(script, "delete widgets/a", "delete widgets/a rv=1", 1), true},
		"line":      {strings.Replace(script, "----", "delete widgets/b\n----", 1), true},
		"command":   {script + "\ndelete widgets/a\n----\n", true},
		"order":     {"each\ndelete widgets/a\ngiven create widgets/a\n----\n", true},
	} {
		if err := sum(is.script).Check(recorded); (err != nil) != is.stale {
			t.Errorf("another %s: %v", change, err)
		}
	}
}

// Only the texts that a script names as deviations are replaced.
func TestDeviations(t *testing.T) {
	t.Parallel()
	input, err := oracle.ParseInput("given create widgets/a\n" + `coppice says "202 \"x\"" for "200": why` + "\ndelete widgets/a")
	if err != nil || strings.Join(input.Lines, "\n") != "given create widgets/a\ndelete widgets/a" || len(input.Deviations) != 1 || input.Deviations[0].Because != "why" {
		t.Fatalf("%+v, %v", input, err)
	}
	if got, err := input.Deviated("a 200\nb 200"); got != "a 202 \"x\"\nb 202 \"x\"" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := input.Deviated("a 404"); err == nil {
		t.Errorf("there is nothing to deviate from, and yet it is %q", got)
	}
	for _, mistake := range []string{
		`coppice says "202" for "200"`, `coppice says "202" for "200": `, `coppice says 202 for 200: why`,
		`coppice says "200" for "200": why`, `coppice: "202"`, `coppice says "\q" for "200": why`,
		`coppice may say "202" for "200": why`, `kubernetes says "202" for "200": why`, `kubernetes may say "202" for "200"`,
	} {
		if input, err := oracle.ParseInput(mistake); err == nil {
			t.Errorf("%s: %+v", mistake, input)
		}
	}
}

// A race changes what is recorded of Kubernetes, and not what Coppice must reply.
func TestRaces(t *testing.T) {
	t.Parallel()
	input, err := oracle.ParseInput("delete widgets/a\n" + `kubernetes may say "b gone" for "b stays": why`)
	if err != nil || len(input.Lines) != 1 || len(input.Races) != 1 || len(input.Deviations) != 0 {
		t.Fatalf("%+v, %v", input, err)
	}
	for _, reply := range []string{"a gone\nb gone", "a gone\nb stays"} {
		if got := input.Recorded(reply); got != "a gone\nb stays" {
			t.Errorf("%q is recorded for %q", got, reply)
		}
	}
	for recorded, is := range map[string]bool{"a gone\nb stays": true, "a gone\nb gone": false, "b stays\nb stays": false, "b stays\nb gone": false} {
		if err := input.CheckRaces(recorded); (err == nil) != is {
			t.Errorf("%q: %v", recorded, err)
		}
	}
	if got, err := input.Deviated("a gone\nb stays"); got != "a gone\nb stays" || err != nil {
		t.Errorf("Coppice must reply %q, %v", got, err)
	}
}

// nowhere is a server without objects that refuses to create any.
type nowhere struct{}

func (nowhere) Do(context.Context, oracle.Request) (*oracle.Reply, error) {
	return &oracle.Reply{Code: 404, Reason: "NotFound"}, nil
}

// Commands and arguments that the package does not know are errors.
func TestScriptMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"destroy widgets/a":                              `there is no command "destroy"`,
		"delete gadgets/a":                               "there are no gadgets",
		"delete policy=Orphan":                           "delete what?",
		"delete widgets/a widgets/b":                     "delete is of one object",
		"delete widgets/a polcy=Orphan":                  `delete does not take "polcy"`,
		"delete widgets/a grace=soon":                    "grace",
		"create widgets/a spec={":                        "spec",
		"create widgets/a owners=(Gadget/a)":             `a reference has no "Gadget/a"`,
		"create widgets/a owners=(Widget/a colour=blue)": `a reference has no "colour=blue"`,
		"each\ngiven create widgets/a\ndelete widgets/a": "create widgets/a: 404 NotFound",
		"settled\nsettle":                                "there is no collector",
		"settled\ncreate widgets/a":                      "create widgets/a: 404 NotFound",
		"class-table\nlive: create widgets/a":            "create widgets/a: 404 NotFound",
		"class-table\nlive: dependents Widget/a":         "create racks/holder: 404 NotFound",
		"class-table\nlive":                              "a colon",
		"class-table":                                    "there is no collector",
		"create widgets/a owners=(Widget/a of=Gadget/a)": "there can be no Gadget/a",
		"each\ncoppice says no":                          "a deviation is",
		"recorded\n----\n\nrecorded":                     "nothing can follow",
	} {
		script := oracle.New("mistakes", nowhere{}, "v1")
		var said string
		datadriven.RunTestFromString(t, line+"\n----\n", func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if _, err := script.Run(t.Context(), d); err != nil {
				said = err.Error()
			}
			return d.Expected
		})
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q, and not %q", line, said, want)
		}
	}
}

// nothing is an oracle.Applier that refuses everything.
type nothing struct{}

func (nothing) Write(context.Context, oracle.Write) (*oracle.Written, error) {
	return &oracle.Written{Code: 1, Said: "Forbidden"}, nil
}

func (nothing) Read(context.Context, oracle.Target, string) (oracle.Object, error) { return nil, nil }

// Mistakes in the scripts of apply are errors.
func TestApplyMistakes(t *testing.T) {
	t.Parallel()
	const values = "\nfirst a=1\nother nothing\nsecond -"
	for lines, want := range map[string]string{
		"create widgets/a":                               `there is no command "create"`,
		"apply-table":                                    "apply-table has one argument",
		"apply-table labels spec" + values:               "apply-table has one argument",
		"apply-table labels" + values:                    "step 1: exit code 1, Forbidden",
		"apply-table labels\nfirst a\nother b\nsecond c": `"a" is no value of labels`,
		"apply-table labels\nfirst a=1\nsecond -":        "needs values of first, other and second",
		"apply-steps a\nget {}":                          `there is no step "get"`,
		"apply-steps a\napply {":                         "read an object",
		"apply-steps a":                                  "a has no steps",
	} {
		script := oracle.NewApply("mistakes", nothing{}, "v1")
		var said string
		datadriven.RunTestFromString(t, lines+"\n----\n", func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if _, err := script.Run(t.Context(), d); err != nil {
				said = err.Error()
			}
			return d.Expected
		})
		if !strings.Contains(said, want) {
			t.Errorf("%q: %q, want %q", lines, said, want)
		}
	}
}
