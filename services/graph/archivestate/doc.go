// Package archivestate builds states from an archive: from a snapshot, and the commits since.
//
//	archive   segment │ segment │ snapshot of commit S │ segment
//	                                │ Load                 │ package wholelog
//	                                ▼                      ▼
//	state     ─────────────────── commit S ──► commits that were cut from the stream ──► stream
//
// A replica loads the newest snapshot that can be used, and follows the log from there. [Archive.Fold]
// builds the last state of an archive without a stream, to restore a realm.
package archivestate
