package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Flags are the flags of a benchmark: its own, and those that all benchmarks have.
type Flags struct {
	*pflag.FlagSet
	output, dir, profile string
	checks               []func() error
}

// AddFlags adds the flags that all benchmarks have to a set.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{FlagSet: set}
	f.StringVarP(&f.output, "output", "o", "table", "table or json")
	f.StringVar(&f.dir, "dir", "", "directory in which to create the temporary directory")
	f.StringVar(&f.profile, "profile", "", "directory to write profiles of this process to, while it is measured: cpu, allocs, block, mutex")
	f.Check(func() error {
		if f.output != "table" && f.output != "json" {
			return fmt.Errorf("--output %q: choose table or json", f.output)
		}
		return nil
	})
	return f
}

// Count adds a flag for a number that must be at least 1.
func (f *Flags) Count(p *int, name string, value int, usage string) {
	f.IntVar(p, name, value, usage)
	f.Check(func() error {
		if *p < 1 {
			return fmt.Errorf("--%s %d: at least 1 is needed", name, *p)
		}
		return nil
	})
}

// Positive adds a flag for a duration that must be more than 0.
func (f *Flags) Positive(p *time.Duration, name string, value time.Duration, usage string) {
	f.DurationVar(p, name, value, usage)
	f.Check(func() error {
		if *p <= 0 {
			return fmt.Errorf("--%s %v: more than 0 is needed", name, *p)
		}
		return nil
	})
}

// Check adds a check of the flags.
func (f *Flags) Check(check func() error) { f.checks = append(f.checks, check) }

// Validate checks the flags after they are parsed.
func (f *Flags) Validate() error {
	for _, check := range f.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// RunHere runs a benchmark as Run does, in a temporary directory.
func (f *Flags) RunHere(c *cobra.Command, config Config, run func(context.Context, Config) (*Result, error)) (err error) {
	dir, err := os.MkdirTemp(f.dir, "coppice-bench-")
	if err == nil {
		config.Dir, err = filepath.Abs(dir) // for the URL of the archive
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(config.Dir)) }()
	return f.Run(c, config, run)
}

// Run runs a benchmark, and prints its result. Meanwhile it draws a bar if stderr is a terminal.
func (f *Flags) Run(c *cobra.Command, config Config, run func(context.Context, Config) (*Result, error)) error {
	stderr, ok := c.ErrOrStderr().(*os.File)
	terminal := ok && term.IsTerminal(int(stderr.Fd()))
	if terminal {
		config.Progress = bar(stderr)
	}
	config.Measuring = func() (func() error, error) { return startProfiles(f.profile) }
	config.defaults()
	r, err := run(c.Context(), config)
	if err != nil {
		return err
	}
	if terminal {
		_, _ = fmt.Fprint(stderr, "\r\x1b[K") // removes the bar
	}
	if f.output == "json" {
		return json.NewEncoder(c.OutOrStdout()).Encode(r)
	}
	return r.Table(c.OutOrStdout())
}

// bar returns a Progress that draws a bar.
func bar(w io.Writer) Progress {
	var mu sync.Mutex
	var last time.Time
	return func(what string, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < 100*time.Millisecond && done < total {
			return
		}
		last = time.Now()
		const width = 40
		full := width * done / max(1, total)
		_, _ = fmt.Fprintf(w, "\r%-24.24s [%s%s] %3d%%", what, strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*done/max(1, total))
	}
}
