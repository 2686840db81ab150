package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// otherVariables are the flags whose variable of the environment is not named after them.
var otherVariables = map[string]string{
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

// setFromEnvironment sets the flags of a command that were not given.
func setFromEnvironment(a *cli.App, c *cobra.Command) error {
	if !hasEnvironment(c) {
		return nil
	}
	var failed error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := variableOf(f)
		if name == "" || f.Changed || failed != nil || f.Name == cli.LogLevelFlag && a.Verbose {
			return
		}
		value := os.Getenv(name)
		if value == "" {
			return
		}
		values := []string{value}
		if _, list := f.Value.(pflag.SliceValue); list {
			values = strings.Split(value, ",")
		}
		for _, v := range values {
			if err := c.Flags().Set(f.Name, strings.TrimSpace(v)); err != nil {
				failed = fmt.Errorf("$%s: %w", name, err)
				return
			}
		}
	})
	return failed
}
