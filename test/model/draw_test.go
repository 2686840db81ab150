package model_test

import (
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// What scripts are drawn from. What is drawn is text, so that what a failure
// prints can be replayed.

var (
	drawnName  = rapid.SampledFrom([]string{"a", "b", "c"})
	drawnKind  = rapid.SampledFrom([]string{"cm", "cm", "cm", "cm", "cm", "cm", "cm", "cm", "po", "po", "po", "rc", "wd", "wd", "en", "ev", "lt", "no", "no"})
	drawnPlace = rapid.SampledFrom([]string{"", "", "", "", "", "", "", "@x"})
	drawnOwner = rapid.Custom(func(t *rapid.T) string {
		return drawnTarget(t) + rapid.SampledFrom([]string{"", "!", "!", "!", ".", "*", "!*"}).Draw(t, "flags") +
			rapid.SampledFrom(append(make([]string, 24), "~name", "~kind", "~uid", "~never", "~old", "~version", "~unheard", "~empty")).Draw(t, "wrong")
	})
	drawnOwners     = some(drawnOwner, 3)
	drawnFinalizers = some(rapid.SampledFrom([]string{
		"example.com/x", "example.com/x", "example.com/x", "example.com/y", servedFinalizer, servedFinalizer, "orphan", "orphan", "foregroundDeletion", "foregroundDeletion", "x", "bad..",
	}), 2)
	drawnPolicy     = rapid.SampledFrom([]string{"", " policy=Background", " policy=Foreground", " policy=Foreground", " policy=Foreground", " policy=Orphan", " policy=Orphan", " orphan=true", " orphan=false"})
	drawnRare       = rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", "", "", " dry", " twice", " twice"})
	drawnPre        = rapid.SampledFrom([]string{"", "", "", "", "", "", "", " rv=now", " rv=stale", " uid=now", " uid=wrong"})
	drawnSpec       = rapid.SampledFrom([]string{"", "", "", " spec=v:1", " spec=v:2", " spec=nodeName:n", " spec=nodeName:n,terminationGracePeriodSeconds:3"})
	drawnLabels     = rapid.SampledFrom([]string{"", "", " labels=app=web", " labels=app=db"})
	drawnVersion    = rapid.SampledFrom(append(make([]string, 12), " version=v1", " version=v2", " version=v9"))
)

func drawnTarget(t *rapid.T) string {
	kind := drawnKind.Draw(t, "kind")
	at := kind + "/" + drawnName.Draw(t, "name")
	if kind != "no" {
		at += drawnPlace.Draw(t, "namespace")
	}
	return at
}

// some is a list of up to n, "-" if there is none.
func some(of *rapid.Generator[string], n int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if list := rapid.SliceOfN(of, 0, n).Draw(t, "list"); len(list) > 0 {
			return strings.Join(list, ",")
		}
		return "-"
	})
}

func optional(t *rapid.T, name string, of *rapid.Generator[string]) string {
	if v := of.Draw(t, name); v != "-" {
		return " " + name + "=" + v
	}
	return ""
}

// drawnScript is a script of many lines, which is shrunk to as few as it takes.
var drawnScript = rapid.Custom(func(t *rapid.T) []string {
	return slices.DeleteFunc(rapid.SliceOfN(drawnLine, 15, longest).Draw(t, "lines"), func(line string) bool { return line == "" })
})

// drawnLine is an operation. The commoner ones are there more often.
var drawnLine = rapid.Custom(func(t *rapid.T) string {
	verb := rapid.SampledFrom([]string{
		"", "create", "create", "create", "create", "create", "create", "create", "create", "create", "create",
		"delete", "delete", "delete", "delete", "delete", "update", "update", "update", "unfinalize", "unfinalize", "import", "import",
		"apply", "patch", "generate", "status", "confirm", "initialize", "deletecollection", "close", "propose", "work", "settle", "plan", "container", "rare",
	}).Draw(t, "verb")
	switch verb {
	case "": // nothing: what a line of a failing script is shrunk to
	case "create", "apply", "import", "patch", "update", "generate":
		line := verb + " " + drawnTarget(t) + optional(t, "owners", drawnOwners) + optional(t, "fin", drawnFinalizers) + drawnLabels.Draw(t, "labels") + drawnSpec.Draw(t, "spec")
		switch verb {
		case "create":
			line += rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", " init=i.example.com", " init=i.example.com,j.example.com"}).Draw(t, "initializers")
		case "import":
			line += rapid.SampledFrom([]string{"", "", "", "", " deleting", " uid=live", " uid=live deleting", " uid=old", " uid=any", " status=observedGeneration:1"}).Draw(t, "state")
		case "update":
			line += drawnPre.Draw(t, "precondition")
		}
		return line + drawnVersion.Draw(t, "version") + drawnRare.Draw(t, "how")
	case "delete":
		return "delete " + drawnTarget(t) + drawnPolicy.Draw(t, "policy") + drawnPre.Draw(t, "precondition") + drawnVersion.Draw(t, "version") +
			rapid.SampledFrom([]string{"", "", "", "", "", " grace=0", " grace=2", " grace=-1", " policy=Never", " orphan=true policy=Orphan"}).Draw(t, "options") + drawnRare.Draw(t, "how")
	case "confirm":
		return "delete " + rapid.SampledFrom([]string{"po/a", "po/b", "po/c", "en/a"}).Draw(t, "pod") + " grace=0"
	case "unfinalize":
		return "unfinalize " + drawnTarget(t) + " fin=" + rapid.SampledFrom([]string{"example.com/x", "example.com/x", "example.com/x", "example.com/y", "orphan", "foregroundDeletion"}).Draw(t, "finalizer")
	case "status":
		return "status " + rapid.SampledFrom([]string{"wd/a status=observed:now", "wd/b status=observed:now", "wd/c status=observed:now", "po/a status=phase:Succeeded", "po/b status=phase:Failed", "cm/a status=x:1"}).Draw(t, "status")
	case "initialize":
		return rapid.SampledFrom([]string{"initialize ", "initialize ", "fail "}).Draw(t, "initializer") + drawnTarget(t)
	case "deletecollection":
		return "deletecollection " + rapid.SampledFrom([]string{"cm/a", "po/a", "rc/a", "wd/a", "en/a", "lt/a", "cm/a@x"}).Draw(t, "collection") + drawnPolicy.Draw(t, "policy") + drawnLabels.Draw(t, "labels")
	case "plan":
		return "plan " + drawnTarget(t) + drawnPolicy.Draw(t, "policy")
	case "container":
		return rapid.SampledFrom([]string{
			"create kind/late", "create kind/late", "delete kind/late", "delete kind/late", "create ns/self", "create ns/x", "delete ns/self", "delete ns/x", "create ns/x fin=example.com/x",
		}).Draw(t, "container")
	case "rare":
		if rapid.IntRange(0, 11).Draw(t, "rare") > 0 {
			return "work"
		}
		return rapid.SampledFrom([]string{
			"restart processor", "stop processor", "restart finalizers", "stop finalizers", "restart scanner", "restart graph", "restart graph", "rebuild graph",
			"options", "options grace=0s", "options grace=200ms", "options propagation=cascade", "options cycles=collect", "options grace=0s propagation=cascade cycles=collect",
		}).Draw(t, "disturbance")
	}
	return verb
})
