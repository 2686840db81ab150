// Command conformance writes docs/conformance.md: which test shows which
// behaviour and which property of docs/semantics.md, and which scenario of
// Kubernetes' own tests.
//
//	go run ./test/conformance           runs the tests that are named, and writes the page
//	go run ./test/conformance -check    runs them, and fails if the page is another
//
// With -results FILE it runs no tests, but takes the results from a file with the output of
// go test -json ./..., and prints the failed tests.
//
// A comment in a test says what the test shows. It begins with ids and a colon:
//
//	# A5.2, C070: Foreground, then Background: removed at once.
//
// In a script (testdata) the comment is above a case, and the case must have an expected
// output. In Go it is above a statement of a test, or in the doc comment of the test. Ids in the
// middle of a comment do not count. Cite a behaviour only where the test fails without it, and each one
// at an assertion of its own.
//
// catalogue.txt has all ids, and a remark for each id that no test shows. The page has no
// line numbers, so that it changes only with its content.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/coppice-gc/coppice/test/internal/module"
)

const pageFile = "docs/conformance.md"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	check := flags.Bool("check", false, "compare with "+pageFile+" instead of writing it")
	resultsFile := flags.String("results", "", "the output of go test -json ./..., instead of running the tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := module.Root()
	if err != nil {
		return err
	}
	var ran map[string]map[string]string
	if *resultsFile != "" {
		f, err := os.Open(*resultsFile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if ran, err = readResults(f, stdout); err != nil {
			return err
		}
	}
	page, citations, err := build(root)
	if err != nil {
		return err
	}
	if err := runCited(ctx, root, citations, ran, stdout); err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(pageFile))
	if !*check {
		return os.WriteFile(path, page, 0o644)
	}
	return compare(path, page)
}

// build reads the tests of the module and returns the page.
func build(root string) (page []byte, citations []citation, err error) {
	catalogue, err := parseCatalogue(catalogueText)
	if err != nil {
		return nil, nil, err
	}
	citations, err = collect(os.DirFS(root))
	if err != nil {
		return nil, nil, err
	}
	page, err = render(catalogue, citations)
	return page, citations, err
}

func compare(path string, want []byte) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s is not what the tests say: run 'make conformance'", pageFile)
	}
	return nil
}
