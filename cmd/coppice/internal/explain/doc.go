// Package explain says why an object is not deleted, or why it was, as `coppice explain`
// shows it.
//
// [Explain] collects an [Explanation]: the owners of the object with their
// classes, as the verb resolve returns them, what blocks its removal, and from the event log the causes of its deletion.
// [Explanation.Write] writes it for people; as JSON it is for programs.
package explain
