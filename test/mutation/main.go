// Command mutation breaks the rules of internal/lifecycle, one at a time, and
// shows that its tests notice each:
//
//	go run ./test/mutation               all mutants; 40 minutes
//	go run ./test/mutation -run A12.7    those whose name matches
//
// It fails if a mutant survives, does not compile, or does not apply any more.
// The mutants are in mutants/*.txt, each as what it breaks, the file, and the
// lines that change:
//
//	A12.7: references to a waiting owner stay
//	evaluate.go
//	-	case solid > 0 && waiting+dangling > 0:
//	+	case solid > 0 && dangling > 0:
//
// Lines before "-" and "+" that begin with a space are context. Together with
// the lines that go they occur once in the file. Nothing is copied or changed:
// the compiler is given the mutant by -overlay.
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
	"regexp"
	"runtime"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/coppice-gc/coppice/test/internal/module"
)

const pkg = "internal/lifecycle"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	pattern := flags.String("run", "", "only mutants whose name matches this regular expression")
	parallel := flags.Int("parallel", runtime.GOMAXPROCS(0), "how many mutants are tested at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	root, err := module.Root()
	if err != nil {
		return err
	}
	all, err := mutants()
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all {
		if wanted.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant matches %q", *pattern)
	}
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	limit, err := unbroken(ctx, root, dir)
	if err != nil {
		return err
	}
	return testAll(ctx, root, dir, chosen, limit, *parallel, stdout)
}

// testAll tests the mutants in a directory, several at once, and writes a table in their
// order. limit is how long the tests of one may take.
func testAll(ctx context.Context, root, dir string, chosen []mutant, limit time.Duration, parallel int, stdout io.Writer) error {
	began := time.Now()
	noticed := make([]string, len(chosen))
	fails := make([]error, len(chosen))
	var group sync.WaitGroup
	next := make(chan int)
	for range max(1, parallel) {
		group.Go(func() {
			for i := range next {
				noticed[i], fails[i] = chosen[i].test(ctx, root, filepath.Join(dir, fmt.Sprint(i)), limit)
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	group.Wait()

	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	survived := 0
	for i, m := range chosen {
		if fails[i] != nil {
			survived++
			noticed[i] = "NOT NOTICED"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\n", m.name, noticed[i])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "%d of %d mutants were noticed, in %s\n", len(chosen)-survived, len(chosen), time.Since(began).Round(time.Second))
	return errors.Join(fails...)
}
