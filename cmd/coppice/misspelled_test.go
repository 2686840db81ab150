package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The value of a flag is no command, also where a command has sub-commands.
func TestFlagsBeforeCommands(t *testing.T) {
	t.Parallel()
	for line, ok := range map[string]bool{
		"parked --server nats://127.0.0.1:1": true,
		"parked --user operator":             true,
		"parked --user=operator":             true,
		"parked --user operator shwo 1":      false,
		"parked -v shwo 1":                   false,
		"parked show 1 --user operator":      true,
		"gte --user operator":                false,
	} {
		if err := checkCommand(newRoot(strings.NewReader(""), io.Discard, io.Discard), strings.Fields(line)); (err == nil) != ok {
			t.Errorf("coppice %s: %v", line, err)
		}
	}
}

// Coppice has each command of kubectl 1.36, or says why not; help and completion are cobra's.
func TestCommandsOfKubectl(t *testing.T) {
	t.Parallel()
	offered := map[string]bool{}
	eachCommand(func(name string, _ *cobra.Command) { offered[name] = true })
	for name := range strings.FieldsSeq(`annotate api-resources api-versions apply attach auth autoscale certificate cluster-info
		config cordon cp create debug delete describe diff drain edit events exec explain expose get kuberc kustomize
		label logs options patch plugin port-forward proxy replace rollout run scale set taint top uncordon version wait`) {
		if reason := notOffered[name]; offered[name] == (reason != "") {
			t.Errorf("coppice %s: offered is %t, and the reason why not is %q", name, offered[name], reason)
		}
	}
}
