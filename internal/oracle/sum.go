package oracle

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// recorded is the last command of a script.
const recorded = "recorded"

// Sum is a checksum over the requests of a script. It shows whether a recording belongs to
// the script. Comments, deviations and races do not count: they can change without a new
// recording.
type Sum struct{ asked strings.Builder }

// Add adds one case.
func (s *Sum) Add(d *datadriven.TestData) {
	fmt.Fprintln(&s.asked, d.FullCmd())
	input, err := ParseInput(d.Input)
	if err != nil {
		input.Lines = []string{d.Input} // the replay of the script reports what is wrong with it
	}
	for _, line := range input.Lines {
		fmt.Fprintln(&s.asked, line)
	}
}

// Of returns the output of "recorded" for a server of this version.
func (s *Sum) Of(version string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, s.asked.String())
	return fmt.Sprintf("from %s\nscript %x\n", version, h.Sum(nil)[:16])
}

// Check returns an error if the output of "recorded" belongs to another script.
func (s *Sum) Check(below string) error {
	version, _, _ := strings.Cut(strings.TrimPrefix(below, "from "), "\n")
	if below != s.Of(version) {
		return fmt.Errorf("the script is newer than what is recorded of it: record it again with 'make oracle'")
	}
	return nil
}
