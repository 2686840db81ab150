package cli

import "github.com/spf13/cobra"

// DryMode is what --dry-run says.
type DryMode string

// The values of --dry-run.
const (
	DryNone   DryMode = "none"
	DryServer DryMode = "server" // the server evaluates the request and changes nothing
	DryClient DryMode = "client" // no request is sent that could change anything
)

// DryRunFlag adds --dry-run.
func DryRunFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "dry-run", "none", "server: evaluate the request and change nothing; client: only check the input; or none")
	c.Flags().Lookup("dry-run").NoOptDefVal = "server"
}

// ParseDryRun reads the value of --dry-run.
func ParseDryRun(value string) (DryMode, error) {
	switch mode := DryMode(value); mode {
	case DryNone, DryServer, DryClient:
		return mode, nil
	case "":
		return DryNone, nil
	}
	return DryNone, UsageErrorf("--dry-run=%s is not known; there are server, client and none", value)
}

// On reports whether nothing is changed.
func (d DryMode) On() bool { return d != DryNone }

// Suffix marks what was done in a dry run.
func (d DryMode) Suffix() string {
	switch d {
	case DryServer:
		return " (server dry run)"
	case DryClient:
		return " (dry run)"
	}
	return ""
}
