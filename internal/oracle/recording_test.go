package oracle_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/oracle"
)

// The checksum of a script depends on its requests, and not on comments and deviations.
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
	rest, all, err := oracle.Deviations("given create widgets/a\n" + `coppice says "202 \"x\"" for "200": why` + "\ndelete widgets/a")
	if err != nil || strings.Join(rest, "\n") != "given create widgets/a\ndelete widgets/a" || len(all) != 1 || all[0].Because != "why" {
		t.Fatalf("%q, %+v, %v", rest, all, err)
	}
	if got, err := oracle.Deviated("a 200\nb 200", all); got != "a 202 \"x\"\nb 202 \"x\"" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := oracle.Deviated("a 404", all); err == nil {
		t.Errorf("there is nothing to deviate from, and yet it is %q", got)
	}
	for _, mistake := range []string{
		`coppice says "202" for "200"`, `coppice says "202" for "200": `, `coppice says 202 for 200: why`,
		`coppice says "200" for "200": why`, `coppice: "202"`, `coppice says "\q" for "200": why`,
	} {
		if _, all, err := oracle.Deviations(mistake); err == nil {
			t.Errorf("%s: %+v", mistake, all)
		}
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
