package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The objects of the example manifests: a Deployment, its dependents, and theirs.
const (
	demoDeployment = "deployments.apps/web"
	demoReplicaSet = "replicasets.apps/web-7d4f8c6b5d"
	demoService    = "services/web"
	demoConfig     = "configmaps/web"
	demoBlockedPod = "pods/web-7d4f8c6b5d-4xk2p" // by demoFinalizer
	demoPod2       = "pods/web-7d4f8c6b5d-b8vhw"
	demoPod3       = "pods/web-7d4f8c6b5d-zr6qd"
)

// blockedIn is the namespace in which the external finalizer waits until it was shown.
const blockedIn = "foreground"

// demoRound is one way to delete the Deployment, and the expected outcome.
type demoRound struct {
	name, about       string
	policy, namespace string
	// state of the deletion, and the finalizer that the DELETE sets, if any.
	state     client.DeleteState
	finalizer string
	// The remaining objects with their owners: waiting while the finalizer is busy,
	// left in the end.
	waiting, left map[string]string
	// events are the expected events after the creations.
	events []happening
}

// happening is an expected event, its cause, the events that must precede it, and how
// often it occurs if not once.
type happening struct {
	what, why string
	after     []string
	times     int
}

const (
	created = "ObjectCreated "
	marked  = "DeletionMarked "
	parted  = "OwnerReferencesRemoved "
	removed = "ObjectDeleted "
)

var demoRounds = []demoRound{
	{
		name: "Background", about: "the owner goes at once, and what depended on it follows, level by level",
		policy: "Background", namespace: "background", state: client.Removed,
		events: []happening{
			{what: removed + demoDeployment, why: "ana deleted it"},
			{what: removed + demoReplicaSet, why: "ana deleted " + demoDeployment},
			{what: removed + demoService, why: "ana deleted " + demoDeployment},
			{what: removed + demoConfig, why: "ana deleted " + demoDeployment},
			{what: marked + demoBlockedPod, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, times: 2},
			{what: marked + demoPod2, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment},
			{what: marked + demoPod3, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment},
			{what: removed + demoBlockedPod, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, after: []string{marked + demoBlockedPod}},
			{what: removed + demoPod2, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, after: []string{marked + demoPod2}},
			{what: removed + demoPod3, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, after: []string{marked + demoPod3}},
		},
	},
	{
		name: "Foreground", about: "the dependents go first, and owners wait for them: here for a Pod whose bucket is still being emptied",
		policy: "Foreground", namespace: blockedIn, state: client.Pending, finalizer: "foregroundDeletion",
		waiting: map[string]string{demoDeployment: "", demoReplicaSet: demoDeployment, demoBlockedPod: demoReplicaSet},
		events: []happening{
			{what: marked + demoDeployment, why: "ana deleted it"},
			{what: marked + demoReplicaSet, why: "ana deleted " + demoDeployment},
			{what: removed + demoService, why: "ana deleted " + demoDeployment},
			{what: removed + demoConfig, why: "ana deleted " + demoDeployment},
			{what: marked + demoBlockedPod, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, times: 2},
			{what: marked + demoPod2, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment},
			{what: marked + demoPod3, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment},
			{what: removed + demoBlockedPod, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, after: []string{marked + demoBlockedPod}},
			{what: removed + demoPod2, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, after: []string{marked + demoPod2}},
			{what: removed + demoPod3, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, after: []string{marked + demoPod3}},
			{what: removed + demoReplicaSet, why: "ana deleted " + demoDeployment, after: []string{removed + demoBlockedPod, removed + demoPod2, removed + demoPod3}},
			{what: removed + demoDeployment, why: "ana deleted it", after: []string{removed + demoReplicaSet, removed + demoService}},
		},
	},
	{
		name: "Orphan", about: "the owner goes, and what depended on it stays, without a reference to it",
		policy: "Orphan", namespace: "orphan", state: client.Pending, finalizer: "orphan",
		left: map[string]string{
			demoReplicaSet: "", demoService: "", demoConfig: "",
			demoBlockedPod: demoReplicaSet, demoPod2: demoReplicaSet, demoPod3: demoReplicaSet,
		},
		events: []happening{
			{what: marked + demoDeployment, why: "ana deleted it"},
			{what: parted + demoReplicaSet, why: "ana deleted " + demoDeployment + ", orphaning its dependents"},
			{what: parted + demoService, why: "ana deleted " + demoDeployment + ", orphaning its dependents"},
			{what: parted + demoConfig, why: "ana deleted " + demoDeployment + ", orphaning its dependents"},
			{what: removed + demoDeployment, why: "ana deleted it", after: []string{parted + demoReplicaSet, parted + demoService, parted + demoConfig}},
		},
	},
}

// demoMade are the events of the creations.
var demoMade = []happening{
	{what: created + demoDeployment, why: "ana created it"},
	{what: created + demoReplicaSet, why: "deployment-controller created it"},
	{what: created + demoBlockedPod, why: "replicaset-controller created it"},
	{what: created + demoPod2, why: "replicaset-controller created it"},
	{what: created + demoPod3, why: "replicaset-controller created it"},
	{what: created + demoService, why: "ana created it"},
	{what: created + demoConfig, why: "ana created it"},
}

// checkAnswer compares the reply to the DELETE with what the round expects: an object
// that is not removed at once is marked, and its generation is one higher.
func (r demoRound) checkAnswer(before *coppicev1.Object, result *client.DeleteResult) error {
	if result.State != r.state {
		return fmt.Errorf("the deletion is %s, want %s", result.State, r.state)
	}
	if r.finalizer == "" {
		return nil
	}
	m := result.Object.GetMetadata()
	want := before.GetMetadata().GetGeneration() + 1
	if m.GetDeletionTimestamp() == nil || m.DeletionGracePeriodSeconds == nil || m.GetDeletionGracePeriodSeconds() != 0 ||
		m.GetGeneration() != want || !slices.Contains(m.GetFinalizers(), r.finalizer) {
		return fmt.Errorf("the answer is %v, want it marked for deletion with no grace, generation %d and finalizer %s", m, want, r.finalizer)
	}
	return nil
}

// checkLog compares the events with those that the round expects: the same events,
// equally often, and each after those that must precede it.
func (r demoRound) checkLog(happened []happening) error {
	want := slices.Concat(demoMade, r.events)
	seen := map[string]int{}
	var wrong []string
	for _, h := range happened {
		k := slices.IndexFunc(want, func(w happening) bool { return w.what == h.what && w.why == h.why })
		if k < 0 || seen[h.what] == max(want[k].times, 1) {
			wrong = append(wrong, fmt.Sprintf("unexpected: %s because %s", h.what, h.why))
			continue
		}
		seen[h.what]++
		for _, before := range want[k].after {
			if seen[before] == 0 {
				wrong = append(wrong, fmt.Sprintf("%s came before %s", h.what, before))
			}
		}
	}
	for _, w := range want {
		if seen[w.what] < max(w.times, 1) {
			wrong = append(wrong, fmt.Sprintf("missing: %s because %s", w.what, w.why))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the log is not as it should be:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}
