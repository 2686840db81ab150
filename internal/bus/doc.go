// Package bus defines the interface of Coppice's services on NATS: the names of subjects,
// streams, consumers and headers, the configuration of streams, the permissions of roles,
// and the classification of JetStream's errors. No other package spells these names.
//
// Subjects, of a realm:
//
//	coppice.<realm>.api.<actor>.<verb>.<group>.<plural>.<namespace>[.<finalizer>]
//	coppice.<realm>.internal.<operation>
//	coppice.<realm>.log
//	coppice.<realm>.work.<queue>
//	coppice.<realm>.finalize.<group>.<plural>.<uid>.<finalizer>
//	coppice.<realm>.terminate.<group>.<plural>.<uid>
//	coppice.<realm>.expire.<group>.<plural>.<uid>.<program>
//	coppice.<realm>.warning.<group>.<plural>.<namespace>.<uid>.<reason>
//	coppice.<realm>.parked.<rest of the subject of what is parked>
//
// In tokens the dots of a group become "_"; the core group and no namespace
// are "_". A finalizer is written as it is; its dots make it several tokens,
// which is why it stands last.
//
// verbs.go has the verbs and headers, calls.go the calls of finalizers and agents, subjects.go the
// other subjects, streams.go the streams, leaveout.go consumers that leave out messages, roles.go the permissions.
//
// The package imports only the client modules of NATS and errgroup, so that the SDK can use
// it. The embedded server is in internal/bus/natsd, connections are made in internal/bus/dial.
package bus
