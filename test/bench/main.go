// Command bench measures every target of docs/performance.md, and writes that page.
//
// It builds coppice, runs each benchmark in a process of its own, one after
// the other, and keeps what it printed. The page marks targets that
// were missed; it is not a test. Some benchmarks are subcommands of `coppice bench`. The others,
// those of package benchmarks, are subcommands of this program: `go run ./test/bench one replay` runs one of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

type options struct {
	quick, peers bool
	divide       int
	rounds       int
	only         string
	page         string
	keep         string
}

// small is the divisor of all sizes with -quick.
const small = 200

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs one benchmark, or all.
func command(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "one" {
		one := oneCommand()
		one.SetArgs(os.Args[2:])
		return one.ExecuteContext(ctx)
	}
	var o options
	flag.BoolVar(&o.quick, "quick", false, "everything small, and the page to the standard output")
	flag.IntVar(&o.divide, "divide", 1, "by how much everything is smaller than it should be, for those in a hurry")
	flag.BoolVar(&o.peers, "peers", false, "measure PostgreSQL as well, alternating")
	flag.IntVar(&o.rounds, "rounds", 5, "how often Coppice and a peer alternate; the median counts")
	flag.StringVar(&o.only, "only", "", "only the targets whose name has this in it; the page to the standard output")
	flag.StringVar(&o.keep, "keep", "", "a file that keeps what each benchmark printed: a run that was interrupted, of the same program, goes on from there")
	flag.StringVar(&o.page, "page", "docs/performance.md", "the page")
	flag.Parse()
	if o.quick {
		o.divide = small
	}
	return run(ctx, o)
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "coppice-performance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &suite{dir: dir, coppice: filepath.Join(dir, "coppice"), options: o}
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if err := build(ctx, s.coppice); err != nil {
		return err
	}
	if o.keep != "" {
		if s.kept, err = openKept(o.keep, s.coppice, s.self); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.kept.close()) }()
	}
	p, err := s.measure(ctx)
	if err != nil {
		return err
	}
	if o.quick || o.only != "" {
		return p.write(os.Stdout)
	}
	for _, m := range p.targets {
		if m.profiled == nil {
			continue
		}
		if err := writeFile(filepath.Join(filepath.Dir(o.page), m.profiled.file()), func(w io.Writer) error {
			return m.profiled.root.draw(w, m.command)
		}); err != nil {
			return err
		}
	}
	return writeFile(o.page, p.write)
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
