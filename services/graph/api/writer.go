package api

import (
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Writer is what ServeWriter needs in addition to a serve.Config.
type Writer struct {
	*writer.Writer
	// Now is the clock; time.Now if nil.
	Now        func() time.Time
	Objects    WriterConfig
	Operations OperationsConfig
	Expiry     ExpiryConfig
}

// ServeWriter serves commands and linearizable reads until it is stopped.
func ServeWriter(c Config, w Writer) (Stopper, error) {
	served, err := newServer(c, c.Process.ofWriters(), "coppice-writer", "Coppice's object API: commands and reads", "")
	if err != nil {
		return nil, err
	}
	s := newServedWriter(served, w.Writer, w.Now)
	policies := newExpiryServer(s, w.Expiry)
	verbs, ops := newObjectsWriter(s, policies, w.Objects), newOperationsWriter(s, w.Operations)
	return s.serve(
		s.verb(bus.VerbCreate, verbs.create),
		s.verb(bus.VerbUpdate, verbs.update),
		s.verb(bus.VerbUpdateStatus, verbs.updateStatus),
		s.verb(bus.VerbApply, verbs.apply),
		s.verb(bus.VerbApplyAcross, verbs.applyAcross),
		s.verb(bus.VerbPatch, verbs.patch),
		s.verb(bus.VerbImport, verbs.importObjects),
		s.verb(bus.VerbRestore, verbs.restore),
		s.verb(bus.VerbDelete, verbs.delete),
		s.verb(bus.VerbDeleteCollection, verbs.deleteCollection),
		s.verb(bus.VerbRemoveFinalizer, verbs.removeFinalizer),
		s.verb(bus.VerbForceFinalizer, verbs.forceFinalizer),
		s.verb(bus.VerbProtect, verbs.protect),
		s.verb(bus.VerbUnprotect, verbs.protect),
		s.verb(bus.VerbDeleteUnreadable, verbs.deleteUnreadable),
		s.verb(bus.VerbVeto, verbs.veto),
		s.verb(bus.VerbGet, verbs.get),
		s.verb(bus.VerbList, verbs.list),
		s.verb(bus.VerbStatus, verbs.status),
		s.verb(bus.VerbResume, verbs.resume),
		s.verb(bus.VerbReadPast, verbs.readPast),
		s.verb(bus.VerbBrakes, verbs.brakes),
		s.verb(bus.VerbReleaseBrake, verbs.releaseBrake),

		s.operation(bus.OpPropose, ops.propose, bus.RoleProcessor),
		s.operation(bus.OpOrphan, ops.orphan, bus.RoleFinalizers),
		s.operation(bus.OpFinish, ops.finish, bus.RoleFinalizers),
		s.operation(bus.OpDrain, ops.drain, bus.RoleFinalizers),
		s.operation(bus.OpCycles, ops.cycles, bus.RoleScanner),
		s.operation(bus.OpExpire, ops.expire, bus.RoleScanner),
		s.operation(bus.OpExamine, policies.examine, bus.RoleScanner),
		s.operation(bus.OpRepublish, ops.republish, bus.RoleScanner),
	)
}
