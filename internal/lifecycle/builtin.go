package lifecycle

import (
	"strings"
)

// BuiltinKinds are the kinds that a new realm knows from the start: those of
// Kubernetes' groups core, apps and batch, with the defaults of A5.6, Realm, which has the
// realm settings, ProtectionPolicy and ExpiryPolicy. They are registered by ordinary objects
// in the realm's first commit, and can be changed as any other.
func BuiltinKinds() []KindSpec {
	type row struct {
		kind, plural string
		short        []string
		cluster      bool
		deletion     DefaultDeletion
		graceful     *GracefulDeletion
	}
	groups := []struct {
		group string
		rows  []row
	}{
		{"", []row{
			{kind: "ConfigMap", plural: "configmaps", short: []string{"cm"}},
			{kind: "Endpoints", plural: "endpoints", short: []string{"ep"}},
			{kind: "Event", plural: "events", short: []string{"ev"}, deletion: Unsupported},
			{kind: "LimitRange", plural: "limitranges", short: []string{"limits"}},
			{kind: "Namespace", plural: "namespaces", short: []string{"ns"}, cluster: true},
			{kind: "Node", plural: "nodes", short: []string{"no"}, cluster: true},
			{kind: "PersistentVolume", plural: "persistentvolumes", short: []string{"pv"}, cluster: true},
			{kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims", short: []string{"pvc"}},
			{kind: "Pod", plural: "pods", short: []string{"po"}, graceful: podGrace()},
			{kind: "PodTemplate", plural: "podtemplates"},
			{kind: "ReplicationController", plural: "replicationcontrollers", short: []string{"rc"}, deletion: OrphanDependents},
			{kind: "ResourceQuota", plural: "resourcequotas", short: []string{"quota"}},
			{kind: "Secret", plural: "secrets"},
			{kind: "Service", plural: "services", short: []string{"svc"}},
			{kind: "ServiceAccount", plural: "serviceaccounts", short: []string{"sa"}},
		}},
		{"apps", []row{
			{kind: "ControllerRevision", plural: "controllerrevisions"},
			{kind: "DaemonSet", plural: "daemonsets", short: []string{"ds"}},
			{kind: "Deployment", plural: "deployments", short: []string{"deploy"}},
			{kind: "ReplicaSet", plural: "replicasets", short: []string{"rs"}},
			{kind: "StatefulSet", plural: "statefulsets", short: []string{"sts"}},
		}},
		{"batch", []row{
			{kind: "CronJob", plural: "cronjobs", short: []string{"cj"}},
			{kind: "Job", plural: "jobs", deletion: OrphanDependents},
		}},
		{Group, []row{
			{kind: "ExpiryPolicy", plural: "expirypolicies", cluster: true},
			{kind: "Realm", plural: "realms", cluster: true},
			{kind: "ProtectionPolicy", plural: "protectionpolicies", cluster: true},
		}},
	}
	var specs []KindSpec
	for _, g := range groups {
		for _, r := range g.rows {
			scope := ScopeNamespaced
			if r.cluster {
				scope = ScopeCluster
			}
			specs = append(specs, KindSpec{
				Group: g.group, Kind: r.kind, Plural: r.plural, Singular: strings.ToLower(r.kind), ShortNames: r.short,
				Scope: scope, Versions: []KindVersion{{Name: "v1", DefaultDeletion: r.deletion}}, GracefulDeletion: r.graceful,
			})
		}
	}
	return specs
}

// podGrace is how Pods end: those that run on a node are given time; those that
// were never assigned to one, and those that are done, go at once.
func podGrace() *GracefulDeletion {
	return &GracefulDeletion{DefaultSeconds: 30, Except: []FieldCondition{
		{Field: "spec.nodeName", In: []string{""}},
		{Field: "status.phase", In: []string{"Succeeded", "Failed"}},
	}}
}
