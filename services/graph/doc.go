// Package graph is the graph service: it keeps a realm's objects and their
// ownership graph, decides all that changes them, and hands out the work that
// follows.
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
// Every process is a replica of its realms: it folds the log into a state. One
// of them has the lease, and is the writer. realm.go has this life:
// open.go, follow.go and write.go its parts.
package graph
