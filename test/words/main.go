// Command words refuses retired words: those that test/words/words.txt lists, with
// the replacement of each. docs/glossary.md defines the terms.
//
//	go run ./test/words          prints what is refused, and fails if there is anything
//	go run ./test/words -count   counts by directory and kind
//
// It checks words and phrases in Go comments, documents (*.md), help texts, errors and other sentences of the
// program, protobuf and comments of test scripts; and in identifiers, string literals, names of files and
// packages and other text files the words that have no other meaning here.
//
// Where a word is right, a comment on its line or above it says why:
//
//	//words:allow the name is NATS'
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/test/internal/module"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("words", flag.ContinueOnError)
	count := flags.Bool("count", false, "count findings by directory and kind instead of listing them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := module.Root()
	if err != nil {
		return err
	}
	l, err := parseList(listText)
	if err != nil {
		return err
	}
	found, err := l.check(os.DirFS(root))
	if err != nil {
		return err
	}
	if *count {
		return printCounts(stdout, found)
	}
	for _, f := range found {
		if _, err := fmt.Fprintln(stdout, f); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%d retired words: see test/words/words.txt and docs/glossary.md", len(found))
	}
	return nil
}

// printCounts prints a row for each directory: how many findings of each kind.
func printCounts(w io.Writer, found []finding) error {
	counts := map[string]map[string]int{}
	for _, f := range found {
		if counts[f.dir()] == nil {
			counts[f.dir()] = map[string]int{}
		}
		counts[f.dir()][f.kind]++
	}
	for _, dir := range sorted(counts) {
		var parts []string
		sum := 0
		for _, kind := range sorted(counts[dir]) {
			parts = append(parts, fmt.Sprintf("%s %d", kind, counts[dir][kind]))
			sum += counts[dir][kind]
		}
		if _, err := fmt.Fprintf(w, "%5d  %s  (%s)\n", sum, dir, strings.Join(parts, ", ")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%5d  in all\n", len(found))
	return err
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
