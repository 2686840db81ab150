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
//	             ├──► propagator ──► coppice.<realm>.work.>, .finalize.>
//	             └──► watch ──► inboxes
//
// Every process is a replica of its realms: it folds the log into a state. One of them has
// the lease, and is the writer. realm.go runs these phases, which open.go, follow.go and
// write.go implement.
package graph
