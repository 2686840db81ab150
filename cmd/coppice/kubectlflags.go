package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagNotOffered is a flag of kubectl that commands of Coppice do not have.
type flagNotOffered struct {
	name, shorthand string
	commands        string // separated by blanks; "" for every command that has no such flag
	why             string // and what to do instead; thisCommand stands for the command
}

const (
	thisCommand     = "COMMAND"
	nameIt          = "name the object: coppice edit TYPE NAME"
	noImpersonation = "a client acts as its NATS user, whose permissions decide; --actor names who acts, for the log"
	noKubeconfig    = "the connection comes from a NATS context, which --context names, or from --server and --realm"
	noProfile       = "commands write no profiles" + leaveOut
	noLevels        = "-v or --verbose logs more, without levels"
	leaveOut        = "; leave it out"
	neverRecreates  = "no command deletes an object to create it again: coppice delete -f FILE --wait, then coppice apply -f FILE"
	noPrune         = "manifests do not name the objects that are no longer among them: 'coppice delete TYPE -l SELECTOR' deletes objects by their labels, and objects with an owner are deleted with it"
	noSchemas       = "coppice explain says why an object is kept or deleted; the realm has no schemas that could be explained"
)

// flagsNotOffered are the flags of kubectl that Coppice does not offer.
var flagsNotOffered = []flagNotOffered{
	{name: "all", commands: "apply", why: noPrune},
	{name: "allow-missing-template-keys", why: "templates print nothing for a member that is missing" + leaveOut},
	{name: "api-version", commands: "explain", why: noSchemas},
	{name: "as", why: noImpersonation},
	{name: "as-group", why: noImpersonation},
	{name: "as-uid", why: noImpersonation},
	{name: "as-user-extra", why: noImpersonation},
	{name: "cache-dir", why: "the program has no cache" + leaveOut},
	{name: "cached", commands: "api-resources", why: "the kinds are always read from the realm" + leaveOut},
	{name: "cascade", commands: "apply replace", why: neverRecreates},
	{name: "categories", commands: "api-resources", why: "kinds have no categories; the type 'all' means every kind whose objects are in namespaces"},
	{name: "certificate-authority", why: "write --tlsca"},
	{name: "chunk-size", why: "the program chooses how many objects a reply has" + leaveOut},
	{name: "client-certificate", why: "write --tlscert"},
	{name: "client-key", why: "write --tlskey"},
	{name: "cluster", why: noKubeconfig},
	{name: "concurrency", commands: "diff", why: "objects are compared one after the other" + leaveOut},
	{name: "disable-compression", why: "replies are not compressed" + leaveOut},
	{name: "edit", commands: "create", why: "edit the file before, or the object afterwards with 'coppice edit'"},
	{name: "field-manager", why: "the log has who has changed an object: name it with --actor"},
	{name: "filename", shorthand: "f", commands: "edit", why: nameIt},
	{name: "force", commands: "apply replace", why: neverRecreates},
	{name: "force-conflicts", why: "apply has no conflicts: it sets what the manifest has" + leaveOut},
	{name: "grace-period", commands: "apply replace", why: neverRecreates},
	{name: "insecure-skip-tls-verify", why: "the certificate of the server is always verified: --tlsca names the authority that has signed it"},
	{name: "interactive", shorthand: "i", commands: "delete", why: "--dry-run=cascade shows what would be deleted, and --plan deletes exactly that"},
	{name: "kubeconfig", why: noKubeconfig},
	{name: "kuberc", why: "no file has defaults of flags; the environment has those of the connection"},
	{name: "kustomize", shorthand: "k", commands: "edit", why: nameIt},
	{name: "kustomize", shorthand: "k", why: "kustomizations are built by another program: kustomize build DIRECTORY | coppice " + thisCommand + " -f -"},
	{name: "local", why: "the server evaluates objects: --dry-run=server changes nothing"},
	{name: "log-flush-frequency", why: "log lines are written at once" + leaveOut},
	{name: "match-server-version", why: "docs/upgrade.md says which versions of the program and the services work together" + leaveOut},
	{name: "no-headers", commands: "events", why: "the output has no headers" + leaveOut},
	{name: "openapi-patch", commands: "apply", why: "the realm has no schemas that could say how lists are merged: apply replaces them" + leaveOut},
	{name: "output", shorthand: "o", commands: "edit", why: "the editor gets YAML, and reads JSON too" + leaveOut},
	{name: "output", shorthand: "o", commands: "wait", why: "wait prints a line for each object; 'coppice get' prints the objects"},
	{name: "output-patch", commands: "edit", why: "'coppice diff REVISION REVISION' shows what has changed"},
	{name: "output-watch-events", commands: "get", why: "'coppice watch TYPE -o json' prints each change with its type"},
	{name: "overwrite", commands: "apply", why: "apply always sets what the manifest has" + leaveOut},
	{name: "profile", why: noProfile},
	{name: "profile-output", why: noProfile},
	{name: "prune", commands: "apply diff", why: noPrune},
	{name: "prune-allowlist", commands: "apply diff", why: noPrune},
	{name: "raw", why: "a realm has no paths of HTTP; docs/api.md describes its requests"},
	{name: "recursive", shorthand: "R", commands: "edit", why: nameIt},
	{name: "recursive", shorthand: "R", commands: "explain", why: noSchemas},
	{name: "request-timeout", why: "NATS_TIMEOUT in the environment says how long to wait for a reply"},
	{name: "save-config", why: "apply records what it has set by itself: create objects with apply"},
	{name: "server-print", commands: "get", why: "the program makes its tables; -o custom-columns chooses the columns"},
	{name: "server-side", why: "the server always merges and compares" + leaveOut},
	{name: "show-managed-fields", why: "only get shows what the last apply has set: coppice get TYPE NAME --show-managed-fields -o yaml"},
	{name: "show-secrets", commands: "diff", why: "all values are shown" + leaveOut},
	{name: "sort-by", commands: "api-resources", why: "kinds are sorted by their names: coppice api-resources --no-headers | sort -k 5 sorts them otherwise"},
	{name: "subresource", why: "no command writes the status alone; docs/api.md describes the request that does"},
	{name: "template", why: "write the template behind -o: -o go-template=TEMPLATE, or -o jsonpath=TEMPLATE"},
	{name: "tls-server-name", why: "the certificate must have the name in the URL of the server"},
	{name: "token", why: "--user takes a token"},
	{name: "types", commands: "events", why: "events have reasons and no types: -o json has them"},
	{name: "username", why: "write --user"},
	{name: "v", why: noLevels},
	{name: "validate", why: "the server checks the metadata of every object, and has no schemas for the rest" + leaveOut},
	{name: "verbs", commands: "api-resources", why: "all kinds have the same verbs" + leaveOut},
	{name: "vmodule", why: noLevels},
	{name: "wait", commands: "apply replace", why: neverRecreates},
	{name: "warnings-as-errors", why: "--strict-owners of apply, create and replace refuses objects whose owners they warn of"},
	{name: "windows-line-endings", why: "files are written with the line ends of Unix" + leaveOut},
}

// notOfferedFlag returns the row of a flag of kubectl, by its name or its shorthand.
func notOfferedFlag(command, name string) (flagNotOffered, bool) {
	i := slices.IndexFunc(flagsNotOffered, func(f flagNotOffered) bool {
		return (f.name == name || f.shorthand == name) && (f.commands == "" || slices.Contains(strings.Fields(f.commands), command))
	})
	if i < 0 {
		return flagNotOffered{}, false
	}
	return flagsNotOffered[i], true
}

// flagError explains a flag that kubectl has and a command has not.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Name == "verbose" {
		return fmt.Errorf("-v=%s: %s; leave the value out", invalid.GetValue(), noLevels)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	f, known := notOfferedFlag(c.Name(), unknown.GetSpecifiedName())
	if readsFiles := c.Flags().Lookup("filename") != nil; !known || strings.Contains(f.why, thisCommand) && !readsFiles {
		return err // the advice would be a command that does not exist
	}
	command := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	return fmt.Errorf("%s has no --%s: %s", command, f.name, strings.ReplaceAll(f.why, thisCommand, command))
}
