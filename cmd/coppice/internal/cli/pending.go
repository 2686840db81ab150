package cli

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client"
)

// pendingNames says what each kind of pending work is, after a count.
var pendingNames = map[string]string{
	"evaluate":  "owners with dependents for processors",
	"orphan":    "owners that orphan dependents",
	"finish":    "built-in finalizers to complete",
	"examine":   "owners whose dependents are examined",
	"finalize":  "objects with external finalizers",
	"terminate": "objects that an agent ends",
	"blocked":   "owners that dependents block",
	"drain":     "namespaces and kinds that are drained",
}

// PendingText lists the pending work that pendingNames has.
func PendingText(status *client.Status) string {
	var parts []string
	for _, w := range status.GetPending() {
		if name, ok := pendingNames[w.GetType()]; ok {
			parts = append(parts, fmt.Sprintf("%d %s", w.GetRows(), name))
		}
	}
	return strings.Join(parts, ", ")
}
