// Package streams handles the verbs that read streams, and those that reply with many messages. A [Server] has the
// watch, the readers of the log and of warnings, verifications, the consumers of calls, and parked work.
package streams
