package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// otherVariables are the flags whose variable of the environment is not named after them.
var otherVariables = map[string]string{ //nolint:gosec // names of variables
	"secret":  "COPPICE_SECRET_FILE", // COPPICE_SECRET holds the secret itself
	"service": "COPPICE_HTTP",        // what a health check asks is what the service serves
}

// variableOf returns the variable of the environment that sets a flag of a command that runs services; "" for
// flags of the connection, which have the variables of the nats command, for --help, and for --verbose, which is short for a --log-level.
func variableOf(f *pflag.Flag) string {
	if name, ok := otherVariables[f.Name]; ok {
		return name
	}
	if f.Name == "help" || f.Name == "verbose" || strings.Contains(f.Usage, "($NATS_") {
		return ""
	}
	return "COPPICE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// hasEnvironment reports whether each flag of a command can be set by the environment: those of services, and of
// their health check. A variable that sets flags of other commands would change what they do to objects.
func hasEnvironment(c *cobra.Command) bool { return runsServices(c) || c.Name() == "ready" }

// nameVariables has the help of commands name the variables of their flags.
func nameVariables(root *cobra.Command) {
	for _, c := range root.Commands() {
		if !hasEnvironment(c) {
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name := variableOf(f); name != "" && !strings.Contains(f.Usage, "$"+name) {
				f.Usage += " ($" + name + ")"
			}
		})
		c.Long = strings.TrimSpace(c.Long + "\n\nEach flag can be set by the variable of the environment that follows it. A flag has\nprecedence; a variable that is empty counts as not set; commas separate several values.")
	}
}

// alternatives are flags of which one is enough: the variable of one does not add to the other on the command line.
var alternatives = map[string]string{"answers-password": "answers-password-file", "answers-password-file": "answers-password"}

// serviceLink matches a value that Kubernetes sets: COPPICE_PORT is tcp://10.96.0.5:9440 for a Service with the name coppice.
var serviceLink = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// setFromEnvironment sets the flags of a command that were not given.
func setFromEnvironment(a *cli.App, c *cobra.Command) error {
	if !hasEnvironment(c) {
		return nil
	}
	given := map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var failed error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := variableOf(f)
		if name == "" || f.Changed || failed != nil || f.Name == cli.LogLevelFlag && a.Verbose {
			return
		}
		if other := c.Flags().Lookup(alternatives[f.Name]); other != nil && given[other.Name] {
			return
		}
		value := os.Getenv(name)
		if value == "" || serviceLink.MatchString(value) {
			return
		}
		values := []string{value}
		if _, list := f.Value.(pflag.SliceValue); list {
			values = strings.Split(value, ",")
			for i, v := range values {
				values[i] = strings.TrimSpace(v)
			}
		}
		for _, v := range values {
			if err := c.Flags().Set(f.Name, v); err != nil {
				failed = fmt.Errorf("$%s: %w", name, err)
				return
			}
		}
	})
	if failed == nil {
		warnOfMisspelled(a, c.Root())
	}
	return failed
}

// prefix begins the variables of Coppice.
const prefix = "COPPICE_"

// warnOfMisspelled names the variables of the environment that are almost those of a flag: a service that ignored
// them would do something else than its operator expects. Other variables may be of other programs: Kubernetes sets
// COPPICE_PORT_9440_TCP for a Service with the name coppice, for example.
func warnOfMisspelled(a *cli.App, root *cobra.Command) {
	var known []string
	for _, c := range root.Commands() {
		if hasEnvironment(c) {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if name, ok := strings.CutPrefix(variableOf(f), prefix); ok {
					known = append(known, name)
				}
			})
		}
	}
	for _, variable := range os.Environ() {
		variable, _, _ = strings.Cut(variable, "=")
		name, ok := strings.CutPrefix(variable, prefix)
		if !ok || slices.Contains(known, name) || slices.Contains(otherNames, name) {
			continue
		}
		if hint := cli.DidYouMean(name, known); hint != "" {
			a.SayWarning(fmt.Sprintf("Coppice does not read $%s%s", variable, strings.Replace(hint, "mean ", "mean $"+prefix, 1)))
		}
	}
}

// otherNames are the variables that set no flag of a service, without their prefix.
var otherNames = []string{"ACTOR", "EDITOR", "SECRET"}
