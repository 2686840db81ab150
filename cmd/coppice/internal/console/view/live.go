package view

// Ask is a message of the browser on the WebSocket /api/live. Each tab has one.
type Ask struct {
	// ID is chosen by the browser, and is that of the messages which follow; it is not 0.
	ID int `json:"id"`
	// End ends what was asked for with the ID. The other fields are ignored then.
	End   bool   `json:"end,omitempty"`
	Realm string `json:"realm,omitempty"`
	// View is Overview, Object, Deletion, Events or Graph.
	View string `json:"view,omitempty"`
	// UID is that of the object, or of the root of the deletion.
	UID string `json:"uid,omitempty"`
	// Events are those of the view Events. After is the position in the log behind which its commits are new; 0: behind the
	// last one. Of the view Deletion it is the revision of the event that began the deletion, if that is known: until the
	// console has read it, the view is loading.
	Events *EventFilter `json:"events,omitempty"`
	After  uint64       `json:"after,omitempty"`
	// Graph is that of the view Graph, whose news are binary messages; see GraphFrame.
	Graph *GraphAsk `json:"graph,omitempty"`
}

// The views of Ask.
const (
	ViewOverview = "Overview"
	ViewObject   = "Object"
	ViewDeletion = "Deletion"
	ViewEvents   = "Events"
	ViewGraph    = "Graph"
)

// News is a message to the browser on the WebSocket.
type News struct {
	// ID is that of the Ask; 0 for what is about the connection.
	ID int `json:"id"`
	// Overview is the whole overview.
	Overview *Overview `json:"overview,omitempty"`
	// Changed: the object, its owners or its dependents have changed, and are to be read again.
	Changed bool `json:"changed,omitempty"`
	// Deletion is how far the deletion is.
	Deletion *Progress `json:"deletion,omitempty"`
	// Events are the rows of new commits, the newest first: of a row that the page has already, what is new in it.
	Events *Events `json:"events,omitempty"`
	// Error says why no news arrives. If it has retry, the server goes on trying.
	Error *Failure `json:"error,omitempty"`
	// Lost says why no news arrives for now, as when the connection to NATS is lost. Found: it is back.
	Lost  string `json:"lost,omitempty"`
	Found bool   `json:"found,omitempty"`
}
