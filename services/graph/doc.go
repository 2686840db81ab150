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
//	graph, realms, retry             the process, the realms that it serves, failures of one
//	realm, open, begin, follow,      the life of a realm in a process: open its log, get a
//	write, phase                     state, fold the log, write it
//	deletion, ending                 the deletion of a realm
//	logcheck, copycheck, countcheck, damage of the log: read it, the copies of a cluster, their
//	lost, skip                       sizes; lost commits; messages that are no commits
//	archiving, retention, past       the archive, the bounds of the log, states of the past
//	work, calls, brake, notice,      what is pending, warnings and metrics
//	finalizers, protected, metrics
package graph
