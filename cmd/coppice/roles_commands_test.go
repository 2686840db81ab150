package main

import (
	"path/filepath"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/bus"
)

// controllerRole is a controller that works with objects and runs an external finalizer.
var controllerRole = bus.ControllerRole("sites", []string{"example.com/site"}, bus.AnyRealm)

// clientRoles are the roles of clients that deployments begin with, and that of a controller.
var clientRoles = []string{bus.RoleReader, bus.RoleViewer, bus.RoleApplication, bus.RoleOperator, bus.RoleFinalizer, bus.RoleAgent, controllerRole.Name}

// roleCommand is a command, and what each role gets of it.
type roleCommand struct {
	// args may contain ROLE. Each role has objects of its own: see roleObjects.
	args string
	// stdout is what the output contains where the command is allowed.
	stdout string
	// allowed are the roles that may run the command. Every other role is refused.
	allowed []string
	// missing is optional information that a role is not shown.
	missing map[string][]string
	// endless commands are interrupted when they have printed stdout.
	endless bool
	// before is a command that an operator runs before, for each role.
	before string
	// fails is what the error contains where the command is allowed, if the realm refuses it.
	fails string
}

// roleObjects are the objects of a role. Those of roleDeleted are deleted.
const roleObjects = `{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-web, uid: ROLE-web}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-child, uid: ROLE-child, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: ROLE-web, uid: ROLE-web}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-other, uid: ROLE-other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-blocked, uid: ROLE-blocked, finalizers: [example.com/hold]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-site, uid: ROLE-site, finalizers: [example.com/site]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-forced, uid: ROLE-forced, finalizers: [example.com/hold]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-removed, uid: ROLE-removed}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-kept, uid: ROLE-kept}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-planned, uid: ROLE-planned}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-used, uid: ROLE-used}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-user, uid: ROLE-user, uses: [{kind: ConfigMap, name: ROLE-used}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-edited, uid: ROLE-edited, labels: {state: unedited}}}
`

// roleDeleted are deleted before the commands run.
var roleDeleted = []string{"blocked", "site", "forced", "removed"}

// roleFiles are the manifests that commands read, by the beginning of their names.
var roleFiles = map[string]string{
	"apply":   "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied-ROLE}}",
	"create":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: created-ROLE}}",
	"replace": "{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-edited, labels: {state: unedited, by: ROLE}}}",
	"import":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: imported-ROLE, uid: imported-ROLE}}",
	"policy":  `{apiVersion: coppice.dev/v1, kind: ExpiryPolicy, metadata: {name: old}, spec: {kind: ConfigMap, condition: "object.metadata.name == 'ROLE-other'"}}`,
}

func roleCommands(dir string) []roleCommand {
	var (
		all     = []string{bus.RoleReader, bus.RoleViewer, bus.RoleApplication, bus.RoleOperator, controllerRole.Name}
		writers = []string{bus.RoleApplication, bus.RoleOperator, controllerRole.Name}
		viewers = []string{bus.RoleReader, bus.RoleViewer, bus.RoleOperator}
		past    = []string{bus.RoleReader, bus.RoleOperator} // they may read the past
		only    = []string{bus.RoleOperator}
	)
	// What an application may not read of an object that an external finalizer blocks.
	of := []string{lookup.AboutEvents, lookup.AboutWarnings}
	hidden := map[string][]string{bus.RoleApplication: of, controllerRole.Name: of, bus.RoleViewer: {lookup.AboutEvents}}
	why := []string{lookup.AboutEvents}
	explained := map[string][]string{bus.RoleApplication: why, controllerRole.Name: why, bus.RoleViewer: {lookup.AboutEvents}}
	file := func(name string) string { return filepath.Join(dir, name+"-ROLE.yaml") }
	plan := filepath.Join(dir, "plan-ROLE.json")
	return []roleCommand{
		{args: "get cm ROLE-web", stdout: "ROLE-web", allowed: all},
		{args: "describe cm ROLE-blocked", stdout: "example.com/hold", allowed: all, missing: hidden},
		{args: "explain cm/ROLE-blocked", stdout: "example.com/hold", allowed: all, missing: explained},
		{args: "explain cm/ROLE-removed", stdout: "was removed", allowed: past},
		{args: "get cm ROLE-web --at 0s", stdout: "ROLE-web", allowed: past},
		{args: "tree cm/ROLE-web --at 0s", stdout: "ROLE-child", allowed: past},
		{args: "plan delete cm/ROLE-web --at 0s", stdout: "2 objects removed", allowed: past},
		{args: "diff 0s 0s", allowed: past},
		{args: "record --out " + filepath.Join(dir, "ROLE.log"), stdout: "commits", allowed: past},
		{args: "tree cm/ROLE-web", stdout: "ROLE-child", allowed: all},
		{args: "tree cm/ROLE-child --up", stdout: "ROLE-web", allowed: all},
		{args: "plan delete cm/ROLE-web", stdout: "2 objects removed", allowed: all},
		{args: "events cm/ROLE-web", stdout: "ObjectCreated", allowed: past},
		{args: "events cm/ROLE-web --follow", stdout: "ObjectCreated", allowed: past, endless: true},
		{args: "events --since 1h --actor operator", stdout: "ROLE-web", allowed: past},
		{args: "audit --since 1h", stdout: "\"name\":\"ROLE-web\"", allowed: past},
		{args: "watch cm ROLE-web", stdout: "ADDED", allowed: all, endless: true},
		{args: "get cm ROLE-web -w", stdout: "ROLE-web", allowed: all, endless: true},
		{args: "parked", allowed: viewers},
		{args: "verify", stdout: "state equals the log", allowed: only},
		{args: "realm resume default", stdout: "was not paused", allowed: only},
		{args: "realm list", stdout: "default", allowed: viewers},
		{args: "realm describe default", stdout: "the defaults", allowed: viewers},
		{args: "realm create ROLE-realm", stdout: "created", allowed: only},
		{args: "realm set default importIdle=10m", stdout: "changed", allowed: only},
		{args: "apply -f " + file("apply"), stdout: "applied-ROLE", allowed: writers},
		{args: "import -f " + file("import"), stdout: "1 object", allowed: only},
		{args: "finalizer remove cm/ROLE-blocked example.com/hold --reason test", stdout: "the object is gone", allowed: only},
		{args: "finalizer remove cm/ROLE-site example.com/site --reason test", stdout: "the object is gone", allowed: []string{bus.RoleOperator, controllerRole.Name}},
		{args: "finalizer remove cm/ROLE-forced example.com/hold --force --reason test", stdout: "the object is gone", allowed: only},
		{args: "finalizer list", stdout: "example.com/hold", allowed: all},
		{args: "leader list", stdout: "host-1/4711 ?[31m", allowed: all},
		{args: "uses cm/ROLE-user", stdout: "ROLE-used", allowed: all},
		{args: "used-by cm/ROLE-used", stdout: "ROLE-user", allowed: all},
		{args: "brake status", allowed: all},
		{args: "brake release cm", stdout: "was not tripped", allowed: only},
		{args: "policy test " + file("policy"), stdout: "ROLE-other", allowed: all},
		{args: "policy list", allowed: all},
		{args: "backup " + file("backup"), allowed: only, fails: "has no archive"},
		{args: "policy veto cm/ROLE-other --for 24h --reason test", allowed: only, fails: "no expiry policy has given notice"},
		{args: "policy agree cm/ROLE-other --reason test", allowed: only, fails: "no expiry policy has given notice"},
		{args: "api-resources", stdout: "configmaps", allowed: all},
		{args: "protect cm/ROLE-kept --reason test", stdout: "ROLE-kept protected", allowed: only},
		{args: "delete cm/ROLE-kept", allowed: writers, before: "protect cm/ROLE-kept --reason test", fails: "is protected by"},
		{args: "unprotect cm/ROLE-kept --reason test", stdout: "ROLE-kept unprotected", allowed: only},
		{args: "create -f " + file("create"), stdout: "created-ROLE created", allowed: writers},
		{args: "replace -f " + file("replace"), stdout: "ROLE-edited replaced", allowed: writers},
		{args: "patch cm ROLE-edited -p {\"metadata\":{\"labels\":{\"patched\":\"yes\"}}}", stdout: "ROLE-edited patched", allowed: writers},
		{args: "label cm ROLE-edited a=b", stdout: "ROLE-edited labeled", allowed: writers},
		{args: "annotate cm ROLE-edited a=b", stdout: "ROLE-edited annotated", allowed: writers},
		{args: "edit cm ROLE-edited", stdout: "ROLE-edited edited", allowed: writers},
		{args: "delete --plan-file " + plan, stdout: "ROLE-planned deleted", allowed: writers, before: "plan delete cm/ROLE-planned --out " + plan},
		{args: "delete cm/ROLE-other --ignore-read-errors --reason test", allowed: only, fails: "it can be read"},
		{args: "restore ROLE-removed --dry-run", stdout: "ROLE-removed", allowed: past},
		{args: "restore ROLE-removed", stdout: "1 object restored", allowed: only},
		{args: "parked show RETRIED", stdout: "rubbish", allowed: viewers},
		{args: "parked retry RETRIED", stdout: "queued again", allowed: only},
		{args: "parked drop DROPPED", stdout: "dropped", allowed: only},
		{args: "realm delete ROLE-gone --without-archive --confirm ROLE-gone", stdout: "realm ROLE-gone deleted", allowed: only, before: "realm create ROLE-gone"},
		{args: "delete cm/ROLE-other", stdout: "deleted", allowed: writers},
		{args: "delete cm/ROLE-web --wait", stdout: "removed 2/2", allowed: writers},
		// Last: it waits for the objects of all roles, which the operator releases before.
		{args: idle, stdout: "idle at revision", allowed: all},
	}
}

// noRoleCommands are commands that no client role runs: they start or prepare a service, measure one, or
// read files. The reason is that of all commands that begin so.
var noRoleCommands = []string{
	"archive", "auth", "bench", "console", "demo", "doctor", "finalizers", "graph", "log", "man", "nats-config", "processor", "ready", "realm restore", "rebuild", "replay", "restore-backup", "scanner", "secret", "up", "version",
}

// idle waits for the objects of all roles: an operator releases them before.
const idle = "wait --idle"
