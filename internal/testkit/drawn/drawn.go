// Package drawn checks a property of package rapid more than once in a test binary, with another
// seed each time. Calls of rapid.Check alone would all draw the same.
package drawn

import (
	"flag"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// seeding is locked while the flag -rapid.seed has the seed of a Check that has not read it yet.
var seeding sync.Mutex

// Check is rapid.Check with the seed of a number: that of -rapid.seed or else nightly.Seed for 0,
// and others for other numbers. A failure names its seed. No test of the same binary may call
// rapid.Check at the same time.
func Check(t *testing.T, number uint64, property func(*rapid.T)) {
	t.Helper()
	seeding.Lock()
	var once sync.Once
	given := flag.Lookup("rapid.seed").Value.String()
	read := func() { // rapid has read the seed
		once.Do(func() {
			defer seeding.Unlock()
			if err := flag.Set("rapid.seed", given); err != nil {
				panic(err)
			}
		})
	}
	defer read()
	seed, err := strconv.ParseUint(given, 0, 64)
	must.Succeed(t, err)
	if seed == 0 {
		seed = nightly.Seed(t)
	}
	// A check draws from the seeds that follow its own.
	must.Succeed(t, flag.Set("rapid.seed", strconv.FormatUint(seed+number<<32, 10)))
	rapid.Check(t, func(t *rapid.T) {
		read()
		property(t)
	})
}
