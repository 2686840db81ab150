// Command conformance writes docs/conformance.md: which test shows which
// behaviour and which property of docs/semantics.md, and which scenario of
// Kubernetes' own tests.
//
//	go run ./test/conformance           runs the tests that are named, and writes the page
//	go run ./test/conformance -check    runs them, and fails if the page is another
//
// With -results FILE it runs nothing, and takes the results from the output of
// go test -json ./... instead; it prints what failed there.
//
// A test says itself what it shows, by a comment of its own that begins with
// ids and a colon:
//
//	# A5.2, C070: Foreground, then Background: removed at once.
//
// In a script (testdata) it stands above a case, and the case has to expect
// something; in Go above a statement of a test, or in the test's own comment.
// What follows, up to the end of the sentence, is what the page says. An id in
// the middle of a comment is prose. Cite a behaviour only where the test would
// fail without it, and each one at an assertion of its own.
//
// catalogue.txt has all ids, and what is to be said of those that no test
// shows. The page has no line numbers: it changes when what is shown does.
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

// build reads the tests of the module, and makes the page of them.
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
