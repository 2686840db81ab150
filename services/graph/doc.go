// Package graph is the graph service: it stores a realm's objects and their ownership
// graph, decides all commands, and publishes the pending work that follows from them.
//
//	 commands            coppice.<realm>.api.>, .internal.>
//	     │
//	     ▼
//	 api ──► writer ──► eventlog ──► coppice.<realm>.log
//	          │  ▲          │
//	lifecycle ┘  │ Tx       │ replay (replicas, and before writing)
//	             ▼          ▼
//	           state  ◄─────┘
//	             │
//	             ├──► propagator ──► coppice.<realm>.work.>, .finalize.>, .terminate.>
//	             ├──► watch ──► inboxes
//	             └──► warn ──► coppice.<realm>.warning.>
//
// Every process is a replica of its realms: it folds the log into a state. One of them has
// the lease, and is the writer. The files of this package are about:
//
//	graph.go, realms.go, retry.go      the process, the realms that it serves, failures of one
//	realm.go, open.go, findstate.go,   the life of a realm in a process: open its log, find a state,
//	replica.go, follow.go, write.go,   serve readers, fold the log, write it
//	phase.go
//	deletion.go, ending.go             the deletion of a realm
//	logcheck.go, copycheck.go,         damage of the log: read it, the copies of a cluster, their
//	countcheck.go, fill.go, lost.go,   sizes; what the archive can fill; lost commits; messages that
//	restored.go, skip.go               are no commits
//	archive.go, retention.go,          the archive, the bounds of the log, what a realm takes,
//	storage.go, past.go                states of the past
//	work.go, calls.go, brake.go,       what is pending, warnings and metrics
//	notice.go, finalizers.go,
//	protected.go, stuck.go,
//	dropped.go, metrics.go
//
// These packages are about the archive, and about logs that do not begin with commit 1:
//
//	internal/archive   the place: a store of segments and snapshots, and their names
//	archiver           writes it: copies the log, verifies snapshots, cuts, merges, prunes
//	wholelog           reads the log where its stream was cut: the stream, and before it the archive
//	snapshot           the format of a file with a state
//	archivestate       states from the archive: the newest snapshot that can be used, and the commits since
//	past               states of the past, in a cache on disk
//	recording          a log in a file, without an archive: folds it, serves it
//	continuation       begins a realm that continues the log of another one, restored or replayed
package graph
