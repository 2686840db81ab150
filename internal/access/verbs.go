package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// BlockOwner is a verb of rules only, no request: to set blockOwnerDeletion for an owner that the user may not delete.
const BlockOwner = "blockowner"

// groups are the names that stand for several verbs.
var groups = map[string][]string{
	"read":  {bus.VerbGet, bus.VerbList, bus.VerbWatch},
	"write": {bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbPatch, bus.VerbApply, bus.VerbDelete, bus.VerbDeleteCollection},
	"past":  bus.PastVerbs(),
}

// explaining are the verbs that come with get: they say why objects are there, and why they go. Their replies have
// only objects that the user may get.
var explaining = []string{
	bus.VerbResolve, bus.VerbPlan, bus.VerbReadWarnings, bus.VerbReadLog, bus.VerbListParked, bus.VerbListFinalizers, bus.VerbListConsumers,
	bus.VerbStatus, bus.VerbBrakes, bus.VerbWatchGraph,
}

// ofFields are the verbs that come with the finalizers, agents and notices of a user, and with nothing else.
var ofFields = []string{bus.VerbConsumeFinalizer, bus.VerbConsumeAgent, bus.VerbConsumeExpiry}

// aboutRealm are the verbs about a realm as a whole.
var aboutRealm = []string{bus.VerbVerify, bus.VerbArchive, bus.VerbResume, bus.VerbCreateRealm, bus.VerbDeleteRealm, bus.VerbListRealms}

// filtered are the verbs whose subjects name no kind or namespace, and whose replies have what the user may see: of leases, its own.
var filtered = []string{
	bus.VerbReadLog, bus.VerbListParked, bus.VerbRetryParked, bus.VerbDropParked, bus.VerbListFinalizers, bus.VerbListConsumers, bus.VerbStatus, bus.VerbBrakes,
	bus.VerbLease, bus.VerbWatchGraph,
}

// reading are the verbs that change nothing. For all others, * does not stand for kinds of the group coppice.dev.
var reading = append([]string{bus.VerbGet, bus.VerbList, bus.VerbWatch, bus.VerbReadPast}, explaining...)

// Verbs returns the verbs that rules may name, with those that stand for several.
func Verbs() []string {
	list := append(slices.Collect(maps.Keys(groups)), All, BlockOwner)
	for _, v := range bus.Verbs() {
		if !slices.Contains(ofFields, v) {
			list = append(list, v)
		}
	}
	return slices.Sorted(slices.Values(list))
}

func checkVerb(v string) error {
	if slices.Contains(Verbs(), v) {
		return nil
	}
	if slices.Contains(ofFields, v) {
		return fmt.Errorf("%s comes with the fields finalizers, agents and notices of a user, and no rule allows it", v)
	}
	return fmt.Errorf("%q is not a verb; the verbs are %s", v, strings.Join(Verbs(), ", "))
}

// Stands returns the verbs for which a name stands: several for read, write and past, and else the name itself.
func Stands(verb string) []string {
	if of := groups[verb]; of != nil {
		return slices.Clone(of)
	}
	return []string{verb}
}

// ClusterScoped reports whether a kind that every realm knows has no namespaces. Of other kinds that is not known.
func ClusterScoped(resource string) bool {
	if resource == kindOfKinds {
		return true
	}
	return slices.ContainsFunc(lifecycle.BuiltinKinds(), func(k lifecycle.KindSpec) bool {
		return k.Scope == lifecycle.ScopeCluster && lifecycle.ResourceName(k.Group, k.Plural) == resource
	})
}

// expand returns the verbs for which those of a rule stand, with those that come with get.
func expand(verbs []string) []string {
	set := map[string]bool{}
	for _, v := range verbs {
		switch of, is := groups[v]; {
		case v == All:
			set[BlockOwner] = true
			for _, v := range bus.Verbs() {
				set[v] = !slices.Contains(ofFields, v)
			}
		case is:
			for _, v := range of {
				set[v] = true
			}
		case slices.Contains(bus.PastVerbs(), v): // together they are one permission
			for _, v := range bus.PastVerbs() {
				set[v] = true
			}
		default:
			set[v] = true
		}
	}
	if set[bus.VerbGet] {
		for _, v := range explaining {
			set[v] = true
		}
	}
	maps.DeleteFunc(set, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(set))
}
