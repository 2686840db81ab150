package state

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// head is what a realm has once, decoded. A State, each of its Snapshots and each Tx have one.
type head struct {
	kinds      *lifecycle.Kinds
	settings   lifecycle.Settings
	realm      lifecycle.Realm
	checkpoint *coppicev1.Checkpoint // only a Tx changes its own
}

// Kinds implements lifecycle.View.
func (h *head) Kinds() *lifecycle.Kinds { return h.kinds }

// Settings implements lifecycle.View.
func (h *head) Settings() lifecycle.Settings { return h.settings }

// Realm returns what the log records about the realm itself.
func (h *head) Realm() lifecycle.Realm { return h.realm }

// Pauses implements lifecycle.View.
func (h *head) Pauses() lifecycle.Pauses { return h.realm.Pauses }

// Checkpoint returns the position in the log: of a Tx that of the last commit that has ended,
// with the revision of the last event that was added. It must not be modified.
func (h *head) Checkpoint() *coppicev1.Checkpoint { return h.checkpoint }
