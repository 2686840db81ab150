// Package codec is the root of the encodings that Coppice writes itself. It has no
// code; each format is a package of its own:
//
//	package      encodes                                     read and written by
//	envelope     a commit as a message of the log:           services/graph/eventlog, client (Log)
//	             compression, position, authentication
//	commitcodec  coppice.v1.Commit: its header, its checksum, services/graph/eventlog, internal/segment
//	             and how many events it has
//	nodecodec    coppice.v1.Node: an object without its      services/graph/state, services/graph/eventlog
//	             spec, status and further members
//	objectcodec  requests with objects, their replies, and   client, services/graph/api, services/graph/state
//	             bodies of objects
//	resolution   coppice.v1.ResolveReply, in columns         services/graph/resolve, processors, the scanner
//	jsonvalue    the JSON in spec, status and extra:         internal/lifecycle, internal/manifest
//	             checked and merged, never interpreted
//	wire         the fields of any protobuf message          the packages above, services/graph/eventlog
//
// # When to use which
//
// Use the generated code (google.golang.org/protobuf) unless a profile shows that
// a message costs at least 5% of a benchmark of docs/performance.md. The packages
// here exist for the messages of which there is one for each object of a cascade,
// a batch of creations or a replay. Every one of them writes what its .proto file
// says, and a test compares it with the generated code, so that a program in any
// language can read it.
//
//   - A new field of Node, Object or Body: add it to the .proto file, then to
//     nodecodec or objectcodec, and to the test that compares them with the generated
//     code. objectcodec passes messages with fields that it does not know to the
//     generated code; nodecodec skips such fields.
//   - A new request or reply: the generated code, through internal/rpc.
//   - A new record with one row for each object: build it with wire.
//   - A value that a user wrote as JSON: check it with jsonvalue before it is stored.
//     What a user wrote as YAML or JSON with Kubernetes' field names is read by
//     internal/manifest, which converts it to messages.
//
// The layout of commits is in services/graph/eventlog, and that of Pebble's rows in
// services/graph/state, because only these packages read and write them.
package codec
