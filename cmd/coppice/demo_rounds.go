package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// What the example manifests make: a Deployment, what it owns, and what that owns.
const (
	demoDeployment = "deployments.apps/web"
	demoReplicaSet = "replicasets.apps/web-7d4f8c6b5d"
	demoService    = "services/web"
	demoConfig     = "configmaps/web"
	demoHeldPod    = "pods/web-7d4f8c6b5d-4xk2p" // by demoFinalizer
	demoPod2       = "pods/web-7d4f8c6b5d-b8vhw"
	demoPod3       = "pods/web-7d4f8c6b5d-zr6qd"
)

// heldIn is the namespace in which the external finalizer takes its time.
const heldIn = "foreground"

// demoRound is a way to delete the Deployment, and what is to come of it.
type demoRound struct {
	name, about       string
	policy, namespace string
	// state of the deletion, and the finalizer that the DELETE sets, if any.
	state     client.DeleteState
	finalizer string
	// waiting is left while the finalizer is busy, and left in the end: objects
	// and their owners.
	waiting, left map[string]string
	// events after those of the making, if their order matters.
	events []happening
}

// happening is an event, why it happened, what has to have happened before, and
// how often it does, if not once.
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
			{what: marked + demoHeldPod, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, times: 2},
			{what: marked + demoPod2, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment},
			{what: marked + demoPod3, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment},
			{what: removed + demoHeldPod, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, after: []string{marked + demoHeldPod}},
			{what: removed + demoPod2, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, after: []string{marked + demoPod2}},
			{what: removed + demoPod3, why: demoReplicaSet + " was gone, because ana deleted " + demoDeployment, after: []string{marked + demoPod3}},
		},
	},
	{
		name: "Foreground", about: "the dependents go first, and owners wait for them: here for a Pod whose bucket is still being emptied",
		policy: "Foreground", namespace: heldIn, state: client.Pending, finalizer: "foregroundDeletion",
		waiting: map[string]string{demoDeployment: "", demoReplicaSet: demoDeployment, demoHeldPod: demoReplicaSet},
		events: []happening{
			{what: marked + demoDeployment, why: "ana deleted it"},
			{what: marked + demoReplicaSet, why: "ana deleted " + demoDeployment},
			{what: removed + demoService, why: "ana deleted " + demoDeployment},
			{what: removed + demoConfig, why: "ana deleted " + demoDeployment},
			{what: marked + demoHeldPod, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, times: 2},
			{what: marked + demoPod2, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment},
			{what: marked + demoPod3, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment},
			{what: removed + demoHeldPod, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, after: []string{marked + demoHeldPod}},
			{what: removed + demoPod2, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, after: []string{marked + demoPod2}},
			{what: removed + demoPod3, why: demoReplicaSet + " was deleting in the foreground, because ana deleted " + demoDeployment, after: []string{marked + demoPod3}},
			{what: removed + demoReplicaSet, why: "ana deleted " + demoDeployment, after: []string{removed + demoHeldPod, removed + demoPod2, removed + demoPod3}},
			{what: removed + demoDeployment, why: "ana deleted it", after: []string{removed + demoReplicaSet, removed + demoService}},
		},
	},
	{
		name: "Orphan", about: "the owner goes, and what depended on it stays, without a reference to it",
		policy: "Orphan", namespace: "orphan", state: client.Pending, finalizer: "orphan",
		left: map[string]string{
			demoReplicaSet: "", demoService: "", demoConfig: "",
			demoHeldPod: demoReplicaSet, demoPod2: demoReplicaSet, demoPod3: demoReplicaSet,
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

// demoMade are the events of the making.
var demoMade = []happening{
	{what: created + demoDeployment, why: "ana created it"},
	{what: created + demoReplicaSet, why: "deployment-controller created it"},
	{what: created + demoHeldPod, why: "replicaset-controller created it"},
	{what: created + demoPod2, why: "replicaset-controller created it"},
	{what: created + demoPod3, why: "replicaset-controller created it"},
	{what: created + demoService, why: "ana created it"},
	{what: created + demoConfig, why: "ana created it"},
}

// checkAnswer compares the answer to the DELETE with what the round wants: an
// object that stays for now is marked, and its generation is one higher.
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

// checkLog compares what happened with what the round wants to: all of it, as
// often as it should, and in an order that keeps what has to.
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
