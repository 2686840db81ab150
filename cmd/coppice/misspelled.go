package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/labelname"
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
	"auth":         "NATS has the users and their permissions; 'coppice nats-config' writes them",
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
		err = unknownCommand(c, rest[i:])
	}
	if err != nil {
		return &usageError{command: path, err: err}
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

// unknownCommand refuses arguments of a command that has only sub-commands.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("there is no command %q%s", args[0], didYouMean(args[0], names))
}

// find returns the kind that a word means. If there is none the error names the kind
// whose name is nearest.
func (s *session) find(word string) (client.Kind, error) {
	k, err := s.Kinds.Find(word)
	if !errors.Is(err, client.ErrUnknownKind) {
		return k, err
	}
	var words []string
	for _, k := range s.Kinds.All() {
		words = append(words, k.Plural, k.Singular, client.ResourceOf(k).String())
	}
	if meant := didYouMean(strings.ToLower(word), words); meant != "" {
		return k, fmt.Errorf("realm %s has no kind %q%s", s.realm, word, meant)
	}
	if !labelname.IsSubdomain(strings.ToLower(word)) {
		return k, fmt.Errorf("realm %s has no kind %q, which cannot be the name of one; 'coppice api-resources' lists them", s.realm, word)
	}
	return k, fmt.Errorf("realm %s has no kind %q; 'coppice api-resources' lists them, and docs/kinds.md says how to register one", s.realm, word)
}

// didYouMean suggests the nearest of some words, nothing if none is near.
func didYouMean(word string, words []string) string {
	best, nearest := max(1, min(2, len(word)/2), len(word)/4)+1, ""
	for _, w := range words {
		if w == "" {
			continue
		}
		d := distance(word, w)
		if len(word) > 2 && strings.HasPrefix(w, word) {
			d = min(d, 1)
		}
		if d < best && d < len(w) {
			best, nearest = d, w
		}
	}
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// distance is the Levenshtein distance of two words, where an exchange of two
// neighbouring letters counts once.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			change := 1
			if x[i-1] == y[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
