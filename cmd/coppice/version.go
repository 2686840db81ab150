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
		Long: `Show the version of this program, the Go release that built it, and its platform. With
-o json also the commit that it was built from, the time of the commit, and whether files
were changed since (dirty), if the build has recorded them.
The command does not connect to NATS.`,
		Args: cobra.NoArgs,
	}
	c.RunE = func(*cobra.Command, []string) error {
		if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
			return cli.NewUsageError(c, err)
		}
		info, _ := debug.ReadBuildInfo()
		v := buildOf(info)
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
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	CommitTime string `json:"commitTime,omitempty"` // RFC 3339
	Dirty      *bool  `json:"dirty,omitempty"`      // whether files were not as in the commit
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

// buildOf returns what a build has recorded, which may be nil. Without -buildvcs, the commit is not known.
func buildOf(info *debug.BuildInfo) buildVersion {
	v := buildVersion{Version: versionOf(""), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	v.Version = versionOf(info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.CommitTime = s.Value
		case "vcs.modified":
			dirty := s.Value == "true"
			v.Dirty = &dirty
		}
	}
	return v
}

// version returns the version of the module, as recorded in the build.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info).Version
}

// versionOf returns a version of a Go module as a semantic version, without the v in front: NATS
// refuses services whose version is anything else.
func versionOf(module string) string {
	if module == "" || module == "(devel)" {
		return "0.1.0-dev"
	}
	return strings.TrimPrefix(module, "v")
}
