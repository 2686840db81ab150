package access_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// docs/security.md names each verb of rules.
func TestDocumentedVerbs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/security.md")
	must.Succeed(t, err)
	_, table, _ := strings.Cut(string(data), "| verb | allows |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, v := range access.Verbs() {
		if !strings.Contains(table, "`"+v+"`") {
			t.Errorf("the table of verbs in docs/security.md has no %s", v)
		}
	}
}
