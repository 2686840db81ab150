package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/labelname"
)

// mayBeEmpty has the flags to which an empty value can be given, each with what it means then. An
// empty value of any other flag is often an unset variable, and would select more than is meant.
var mayBeEmpty = map[string]string{
	"http":             "no address",
	"api-group":        "the core group",
	"user":             noCredentials,
	"password":         noCredentials,
	"creds":            noCredentials,
	"nkey":             noCredentials,
	"tlscert":          noCredentials,
	"tlskey":           noCredentials,
	"tlsca":            "the certificate authorities of this machine",
	"inbox-prefix":     "the inbox of the user",
	"answers-user":     noCredentials,
	"answers-password": noCredentials,
	"answers-creds":    noCredentials,
	"answers-nkey":     noCredentials,
}

// readers are the commands with selectors that change nothing. In a selector of theirs, a sign
// without a value means the empty value, as in Kubernetes.
var readers = []string{"describe", "diff", "get", "wait", "watch"}

const noCredentials = "no credentials; the NATS server decides whether it needs any"

// oldValues are the booleans that kubectl took for some flags in earlier releases, with the values of today.
var oldValues = map[string]map[string]string{
	"cascade": {"true": "background", "false": "orphan"},
	"dry-run": {"true": string(cli.DryClient), "false": string(cli.DryNone)},
}

// replaceOldValue sets the value of today of a flag that has an old one, and warns of it.
func replaceOldValue(a *cli.App, f *pflag.Flag) error {
	was := f.Value.String()
	is, old := oldValues[f.Name][was]
	given, single := f.Value.(*once)
	if !old || !single || f.Value.Type() != "string" {
		return nil
	}
	_, _ = fmt.Fprintf(a.Stderr, "warning: --%[1]s=%[2]s is deprecated: write --%[1]s=%[3]s\n", f.Name, was, is)
	return given.Value.Set(is)
}

// checkGiven refuses flags and arguments that were given and have no valid value, before anything is
// sent. It notes the namespace that was given.
func checkGiven(a *cli.App, c *cobra.Command, args []string) error {
	for i, arg := range args {
		if strings.TrimSpace(arg) == "" {
			return fmt.Errorf("argument %d is %q: write a value, or leave it out", i+1, arg)
		}
	}
	if level := c.Flags().Lookup(cli.LogLevelFlag); a.Verbose && level != nil && level.Changed && level.Value.String() != "debug" {
		return fmt.Errorf("--verbose and --%s=%s contradict each other: give one of them", cli.LogLevelFlag, level.Value)
	}
	var failed error
	c.Flags().Visit(func(f *pflag.Flag) { // those that were given
		failed = cmp.Or(failed, replaceOldValue(a, f))
		if f.Value.Type() == "duration" && strings.HasPrefix(f.Value.String(), "-") && failed == nil {
			failed = fmt.Errorf("--%s=%s: choose 0 or more", f.Name, f.Value)
		}
		for _, value := range textsOf(f) {
			if err := checkFlag(a, c, f, value); failed == nil {
				failed = err
			}
		}
	})
	return failed
}

// textsOf returns the values of a flag that has text.
func textsOf(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		if values := list.GetSlice(); len(values) > 0 {
			return values
		}
		return []string{""} // pflag reads an empty text as no values
	}
	if f.Value.Type() == "string" {
		return []string{f.Value.String()}
	}
	return nil
}

func checkFlag(a *cli.App, c *cobra.Command, f *pflag.Flag, value string) error {
	_, optional := mayBeEmpty[f.Name]
	switch {
	case strings.TrimSpace(value) == "" && (value != "" || !optional):
		return fmt.Errorf("--%s is given with the value %q: write a value, or leave the flag out", f.Name, value)
	case f.Name == "realm":
		if err := bus.CheckRealm(value); err != nil {
			return fmt.Errorf("--realm: %w", err)
		}
	case f.Name == "namespace":
		if len(value) > 63 || !labelname.IsLabel(value) {
			return fmt.Errorf("--namespace: %q is not the name of a namespace: at most 63 lower case letters, digits and hyphens, starting and ending with a letter or digit", value)
		}
		a.GivenNamespace = value
	case (f.Name == "selector" || f.Name == "field-selector") && !slices.Contains(readers, c.Name()):
		return checkRequirements(f.Name, value)
	}
	return nil
}

// withoutValue matches a requirement of a selector that has no value: its key, its sign, or its list.
var withoutValue = regexp.MustCompile(`^(.+?)(?:\s*(!?)==?|\s+(not)?in\s*\(\s*\))$`)

// checkRequirements refuses a requirement without a value: with a variable that is not set, app!=$APP and
// app notin ($APP) would select almost all objects.
func checkRequirements(flag, selector string) error {
	for part := range strings.SplitSeq(selector, ",") {
		part = strings.TrimSpace(part)
		found := withoutValue.FindStringSubmatch(part)
		if found == nil {
			continue
		}
		other, operator := "leave it out", "in"
		if found[2]+found[3] != "" {
			operator = "notin"
		}
		if flag == "selector" {
			other = fmt.Sprintf("'%s %s (,)' if the empty value is meant", found[1], operator)
		}
		return fmt.Errorf("--%s: %q has no value: write one, or %s", flag, part, other)
	}
	return nil
}

// wrapRuns has checkGiven called before a command and its sub-commands run.
func wrapRuns(a *cli.App, c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := cmp.Or(setFromEnvironment(a, c), checkGiven(a, c, args)); err != nil {
				return cli.NewUsageError(c, err)
			}
			return traced(a, c, func() error { return run(c, args) })
		}
	}
	for _, sub := range c.Commands() {
		wrapRuns(a, sub)
	}
}

// once is the value of a flag that takes one value. It refuses a second one that differs.
type once struct {
	pflag.Value
	given bool
	text  string
}

func (o *once) Set(text string) error {
	if o.given && text != o.text {
		return fmt.Errorf("the flag has the value %q already: give it once", o.text)
	}
	o.given, o.text = true, text
	return o.Value.Set(text)
}

// runsServices reports whether a command runs services. They take the last value of a flag: what starts them adds
// flags to those that it has.
func runsServices(c *cobra.Command) bool { return c.GroupID == "services" || c.Name() == "up" }

// eachOnce has the flags of a command and its sub-commands that take one value refuse others.
func eachOnce(c *cobra.Command) {
	if runsServices(c) {
		return
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); list {
			return
		}
		f.Value = &once{Value: f.Value}
		if f.DefValue == "0s" {
			f.DefValue = "0" // as which help knows the zero of a value that is not its own
		}
	})
	for _, sub := range c.Commands() {
		eachOnce(sub)
	}
}
