// Package realm has the commands about realms: [Command] creates, lists, describes, changes, restores, resumes and deletes them.
//
// A realm that continues another log, restored from an archive or replayed from a recording, begins as [BeginFlags] say:
// [BeginFlags.Target] connects to the NATS server, [BeginFlags.Config] says where the realm begins, and [WriteBegun]
// says what to do next.
package realm
