package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

func versionCommand(a *cli.App) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		GroupID: "operate",
		Short:   "Show the version of this program",
		Long: `Show the version of this program, the Go release that built it, and its platform.
The command does not connect to NATS.`,
		Args: cobra.NoArgs,
	}
	c.RunE = func(*cobra.Command, []string) error {
		if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
			return cli.NewUsageError(c, err)
		}
		v := buildVersion{Version: version(), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if output == cli.FormatJSON {
			return json.NewEncoder(a.Stdout).Encode(v)
		}
		_, err := fmt.Fprintf(a.Stdout, "coppice %s (%s, %s)\n", v.Version, v.GoVersion, v.Platform)
		return err
	}
	c.Flags().Bool("client", false, "show the version of this program only, as without the flag")
	c.Flags().StringVarP(&output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	return c
}

// buildVersion describes this program for other programs.
type buildVersion struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// version returns the version of the module, as recorded in the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionOf("")
	}
	return versionOf(info.Main.Version)
}

// versionOf returns a version of a Go module as a semantic version, without the v in front: NATS
// refuses services whose version is anything else.
func versionOf(module string) string {
	if module == "" || module == "(devel)" {
		return "0.1.0-dev"
	}
	return strings.TrimPrefix(module, "v")
}
