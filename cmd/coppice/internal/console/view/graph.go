package view

// GraphAsk says what the view Graph of an Ask shows. An Ask for the graph of the same realm with the same ID changes what is
// shown: the nodes that stay are not sent again, unless it selects other objects.
//
// Nodes have keys: of an object its uid; of the objects without an owner in a namespace "ns:NAMESPACE", and those of one
// resource "kind:RESOURCE:NAMESPACE". Without a namespace the key ends with the colon.
type GraphAsk struct {
	// Namespace, Labels and Root select objects, and all that depends on them is shown. Namespace "-" is of objects that are in
	// none. Labels are pairs "key=value", separated by commas, all of which an object has. Root is a uid.
	Namespace string `json:"namespace,omitempty"`
	Labels    string `json:"labels,omitempty"`
	Root      string `json:"root,omitempty"`
	// Open and Shut are keys of nodes below which the direct dependents are shown, or are not, against the default; at most 200
	// together. Show are the uids of at most 20 objects whose owners are open.
	Open []string `json:"open,omitempty"`
	Shut []string `json:"shut,omitempty"`
	Show []string `json:"show,omitempty"`
}

// GraphFrame begins a binary message on the WebSocket, which says what has changed in a graph. All numbers are unsigned, of 32
// bits, and little-endian, unless it says otherwise:
//
//	the ID of the Ask
//	the length of the GraphFrame, in bytes
//	the GraphFrame, in JSON, with spaces up to the next multiple of 4 bytes of the message
//	Removed numbers of nodes
//	for the Nodes nodes, those that are Named first, column after column:
//	    its number
//	    the number of the node above it, or 0
//	    x, y (two columns, floats of 32 bits)
//	    how many objects are below it
//	    its look: bits 0-3 its state, 4-7 the most severe state below it that is not shown, 8-9 what it stands for (0 an
//	    object, 1 a namespace, 2 a resource in a namespace, 3 those that did not fit), 10 that nodes below it are not shown, 11
//	    that a line leads to it from the node above
//	    its place, the index in Places
//	for the Named nodes, column after column, the names without separators:
//	    the length of its name, in bytes
//	    the length of its key, in bytes
//	    the names of all in UTF-8, then the keys of all, each block with zeros up to a multiple of 4 bytes. The key of an object with
//	    a UUID is a byte 1 and its 16 bytes; every other key is text
//	OthersRemoved, then OthersAdded pairs of the numbers of two nodes: an owner that is not the node above, and its dependent.
//	    The pairs of removed nodes are among those that are removed
//
// States are 0 Present, 1 Protected, 2 Terminating, 3 UnknownOwner, 4 Garbage, 5 Blocked.
//
// A number belongs to a node while it is shown, and is not used again. What a message removes it removes first. A node above
// another one comes before it, in the same message or an earlier one.
type GraphFrame struct {
	// First: what was sent with the ID before is void, as is what was sent on an earlier connection.
	First bool `json:"first,omitempty"`
	// Loading: the objects of the realm are still being read.
	Loading  bool   `json:"loading,omitempty"`
	Revision uint64 `json:"revision"`
	// Objects counts those of the selection; Totals counts them by their states, in the order of the numbers of the states.
	Objects int   `json:"objects"`
	Totals  []int `json:"totals"`
	// Shown counts the nodes that are shown, at most Most. Full: more was to be shown.
	Shown int  `json:"shown"`
	Most  int  `json:"most"`
	Full  bool `json:"full,omitempty"`
	// Depth is the number of levels that are open by default; Levels is how many there are.
	Depth  int `json:"depth"`
	Levels int `json:"levels"`
	// Partial: the user may not get all objects of the realm. Trouble says why changes do not arrive for now.
	Partial bool   `json:"partial,omitempty"`
	Trouble string `json:"trouble,omitempty"`
	// OthersLeft counts the pairs that are left out, because there are too many.
	OthersLeft int `json:"othersLeft,omitempty"`
	// Outside are those of Show that are not in the selection, and the Root if it does not exist: then the objects are shown that
	// name it as their owner, with all that depends on them.
	Outside []string `json:"outside"`
	// Width and Height bound the positions, which begin with 0. y grows downwards.
	Width  float32 `json:"width"`
	Height float32 `json:"height"`
	// Places are to be added to the list of places, which begins empty with each First.
	Places        []GraphPlace `json:"places"`
	Removed       int          `json:"removed"`
	Nodes         int          `json:"nodes"`
	Named         int          `json:"named"`
	OthersRemoved int          `json:"othersRemoved"`
	OthersAdded   int          `json:"othersAdded"`
}

// GraphPlace is a resource in a namespace, which is empty for objects that are in none.
type GraphPlace struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
}

// GraphNext is the reply to GET next, with state=STATE, the name of a state of objects, and namespace=, labels= and root= as in
// GraphAsk: the next object in the state behind the one with the uid after=UID. Objects that have others in the state below
// them are left out: a blocked one waits for these others. Behind the last object follows the first.
type GraphNext struct {
	// UID is empty if no object of the selection has the state.
	UID string `json:"uid,omitempty"`
}
