package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// notOffered are commands of kubectl that Coppice does not have, each with the reason.
var notOffered = map[string]string{
	"logs":         noContainers + "; 'coppice events TYPE/NAME' shows what happened to an object, and why",
	"exec":         noContainers,
	"attach":       noContainers,
	"cp":           noContainers,
	"debug":        noContainers,
	"port-forward": noContainers,
	"top":          noContainers + "; 'coppice bench' and the metrics show how busy the services are",
	"run":          noContainers + "; 'coppice create -f FILE' creates the object",
	"rollout":      "Coppice runs no controllers; 'coppice events TYPE/NAME' shows the history of an object",
	"scale":        "Coppice runs no controllers; 'coppice patch TYPE/NAME -p PATCH' changes a field",
	"expose":       "Coppice runs no controllers; 'coppice create -f FILE' creates the object",
	"autoscale":    "Coppice runs no controllers; 'coppice create -f FILE' creates the object",
	"config":       "the connection comes from a NATS context: 'nats context ls' lists them, and --context selects one",
	"cluster-info": "'coppice wait --idle' shows whether the services answer",
	"set":          "'coppice patch TYPE/NAME -p PATCH' changes a field",
	"certificate":  "Coppice signs no certificates",
	"cordon":       noContainers,
	"uncordon":     noContainers,
	"drain":        noContainers,
	"taint":        noContainers,
	"proxy":        "programs reach the API by any client of NATS: docs/api.md",
	"kustomize":    "kustomizations are built by another program: kustomize build DIR | coppice apply -f -",
	"api-versions": "'coppice api-resources' lists the kinds with their versions",
	"options":      "'coppice COMMAND --help' lists all flags of a command",
	"plugin":       "Coppice runs no plugins",
	"kuberc":       "variables of the environment have the defaults of flags, and --help names them",

	"apply view-last-applied": lastApplied,
	"apply edit-last-applied": lastApplied,
	"apply set-last-applied":  lastApplied,
}

const (
	noContainers = "Coppice stores objects and runs no containers"
	lastApplied  = "only apply changes what the last apply has set, and 'coppice get TYPE/NAME --show-managed-fields -o yaml' shows it"
)

// checkCommand refuses an unknown command before its flags are parsed: a flag of a
// command that does not exist cannot be explained.
func checkCommand(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	i := 0
	for i < len(rest) && strings.HasPrefix(rest[i], "-") {
		i++
		if takesNext(c, rest[i-1]) {
			i++
		}
	}
	if i >= len(rest) || strings.HasPrefix(rest[i], "__") { // how a shell asks for completions
		return nil
	}
	path := strings.TrimPrefix(c.CommandPath()+" ", root.Name()+" ")
	why, kubectls := notOffered[path+rest[i]]
	switch {
	case kubectls:
		err = fmt.Errorf("there is no command %q: %s", path+rest[i], why)
	case path == "create " && i == 0 && !strings.ContainsAny(rest[i], "./"): // a command of kubectl such as configmap, not a file
		err = fmt.Errorf("create only reads manifests, with -f: kubectl create %s ... --dry-run=client -o yaml | coppice create -f -", rest[i])
	case c.HasSubCommands():
		err = cli.UnknownCommand(c, rest[i:])
	}
	if err != nil {
		return &cli.UsageError{Command: path, Err: err}
	}
	return nil
}

// takesNext reports whether the value of a flag of a command is the argument that follows it.
func takesNext(c *cobra.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	f := c.Flags().Lookup(name)
	if !strings.HasPrefix(arg, "--") && len(name) == 1 {
		f = c.Flags().ShorthandLookup(name)
	}
	return f != nil && f.NoOptDefVal == ""
}
