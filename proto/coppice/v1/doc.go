// Package coppicev1 has the protobuf messages of Coppice: objects, the requests and
// replies of the object API, the event log, and the messages between Coppice's services.
//
// Programs use it through package client, whose methods take and return [Object], Plan
// ([PlanReply]), [Commit] and others. The messages in JSON, and the subjects of requests, are
// described in docs/api.md. docs/versioning.md says which messages are stable.
package coppicev1
