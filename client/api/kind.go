package api

import (
	"encoding/json"
	"strings"
)

// Group is the group of Coppice's own kinds, APIVersion their apiVersion.
const (
	Group      = "coppice.dev"
	APIVersion = Group + "/v1"
)

// Kind is the spec of an object of kind Kind: a kind that is registered in a realm.
type Kind struct {
	// Group is empty for the core group.
	Group string `json:"group"`
	// Kind is the kind's name in objects, such as Deployment.
	Kind string `json:"kind"`
	// Plural is the kind's name in requests, such as deployments.
	Plural string `json:"plural"`
	// Singular and ShortNames are other names that people may type.
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	// Scope is ScopeNamespaced or ScopeCluster.
	Scope string `json:"scope"`
	// Versions has at least one version; the first is the default.
	Versions []KindVersion `json:"versions"`
	// GracefulDeletion is set for kinds whose objects an agent ends before they
	// are removed. Objects of other kinds are removed as soon as no finalizer
	// blocks them.
	GracefulDeletion *GracefulDeletion `json:"gracefulDeletion,omitempty"`
	// ObservesGeneration declares that the kind's controllers report the newest
	// generation they have seen in status.observedGeneration. The built-in
	// finalizers then wait until the controller has seen the deletion, so that
	// they do not act while it still creates dependents.
	ObservesGeneration bool `json:"observesGeneration,omitempty"`
	// FinalizeAfterDependents declares that the external finalizers of an object that
	// is deleted in the foreground are called only when it does not wait for its dependents
	// any more.
	FinalizeAfterDependents bool `json:"finalizeAfterDependents,omitempty"`
	// Brake bounds how many objects of the kind the collector deletes within a
	// window. It can only make the brake of the realm settings stricter: the smaller
	// bounds and the longer window apply.
	Brake *Brake `json:"brake,omitempty"`
}

// Brake bounds how many objects of a kind the collector deletes within a window.
// Objects and Percent are bounds; at least one is set unless the brake is off.
type Brake struct {
	// Off turns this brake off; the other members then have no effect. In a kind, the brake
	// of the realm settings still applies.
	Off bool `json:"off,omitempty"`
	// Objects is the maximum number of objects.
	Objects int64 `json:"objects,omitempty"`
	// Percent is the maximum share of the objects that the kind has when the window
	// begins, rounded up.
	Percent int64 `json:"percent,omitempty"`
	// Window is a duration such as "10m"; 10 minutes if it is empty.
	Window string `json:"window,omitempty"`
}

// Scopes of a kind.
const (
	ScopeNamespaced = "Namespaced"
	ScopeCluster    = "Cluster"
)

// Namespaced reports whether objects of the kind live in namespaces.
func (k Kind) Namespaced() bool { return k.Scope == ScopeNamespaced }

// Resource returns the kind's resource as "pods" or "replicasets.apps".
func (k Kind) Resource() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// JSON returns the kind as the spec of an object of kind Kind.
func (k Kind) JSON() []byte {
	b, err := json.Marshal(k)
	if err != nil {
		panic(err) // strings and integers only
	}
	return b
}

// KindVersion is one version of a kind.
type KindVersion struct {
	Name string `json:"name"`
	// DefaultDeletion may differ between versions. It did in Kubernetes'
	// extensions/v1beta1 and apps/v1 (C080).
	DefaultDeletion DefaultDeletion `json:"defaultDeletion,omitempty"`
}

// DefaultDeletion says what a DELETE without a propagation policy does to
// dependents (A5, column D).
type DefaultDeletion string

// The default deletion policies. An empty DefaultDeletion is DeleteDependents.
const (
	// DeleteDependents: background propagation.
	DeleteDependents DefaultDeletion = "DeleteDependents"
	// OrphanDependents: dependents are kept without their owner reference.
	OrphanDependents DefaultDeletion = "OrphanDependents"
	// Unsupported: DELETE ignores every policy and removes both built-in
	// finalizers, so that it neither waits for dependents nor orphans them.
	// Objects of the kind are collected like any other when their owners are gone.
	Unsupported DefaultDeletion = "Unsupported"
)

// GracefulDeletion declares that an agent ends what objects of a kind stand for.
// A DELETE gives the agent a grace period, and the object is removed when the
// agent confirms with a DELETE without grace (A5).
type GracefulDeletion struct {
	// DefaultSeconds is the grace period if neither the DELETE nor the object's
	// spec.terminationGracePeriodSeconds names one.
	DefaultSeconds int64 `json:"defaultSeconds"`
	// Except selects objects that have no agent: they are removed without a
	// grace period if one of the conditions is true.
	Except []FieldCondition `json:"except,omitempty"`
}

// FieldCondition is true if a field of spec or status has one of some values. An
// absent field has the empty string.
type FieldCondition struct {
	// Field is a path such as "spec.nodeName".
	Field string   `json:"field"`
	In    []string `json:"in"`
}

// GroupOf returns the group of an apiVersion such as "apps/v1", and "" for "v1".
func GroupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}
