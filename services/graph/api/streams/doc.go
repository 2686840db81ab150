// Package streams handles the verbs that reply with many messages, and those about the streams of calls and of parked
// work. A [Server] has the watch, the readers of the log and of warnings, verifications, the consumers of calls, and parked
// work. Package services/graph/watch has the changes that a watch sends.
package streams
