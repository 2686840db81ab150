package main

import "github.com/spf13/cobra"

// dryMode is what --dry-run says.
type dryMode string

const (
	dryNone   dryMode = "none"
	dryServer dryMode = "server" // the server evaluates the request and changes nothing
	dryClient dryMode = "client" // no request is sent that could change anything
)

func dryRunFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "dry-run", "none", "server: evaluate the request and change nothing; client: only check the input; or none")
	c.Flags().Lookup("dry-run").NoOptDefVal = "server"
}

// dryRun reads the flag.
func dryRun(value string) (dryMode, error) {
	switch mode := dryMode(value); mode {
	case dryNone, dryServer, dryClient:
		return mode, nil
	case "":
		return dryNone, nil
	}
	return dryNone, wrong("--dry-run=%s is not known; there are server, client and none", value)
}

// on reports whether nothing is changed.
func (d dryMode) on() bool { return d != dryNone }

// suffix marks what was done in a dry run.
func (d dryMode) suffix() string {
	switch d {
	case dryServer:
		return " (server dry run)"
	case dryClient:
		return " (dry run)"
	}
	return ""
}
