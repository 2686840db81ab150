// Package consumers observes the programs that do the work of external finalizers and agents:
// which of them are live, what they work on, and with which error a call failed last.
//
// # Sources
//
//   - The NATS server's state of the durable consumers: open pull requests, the last delivery
//     and the last acknowledgement. It is read when it is needed, at most once in [Fresh].
//   - The acknowledgements themselves (+ACK, -NAK, +WPI), which each graph service receives in
//     addition to the NATS server. Workers of package client add headers: since when they work
//     on a call, and the error of a failed attempt. A -NAK also has the time of the next one.
//
// # What it promises
//
// A consumer is live while it has a pull request open, or was seen with one in the last betweenPulls, or has acknowledged a call or reported
// progress in the last [LiveFor], or was given a call in the last [bus.CallAckWait], in which it must
// do one of these.
//
// What is observed is derived and is not stored: it is lost when the process ends, and comes back
// with the next report of each worker. Memory is bounded (maxCalls, maxConsumers); beyond it,
// errors and times of single calls are not known, and liveness still is.
package consumers
