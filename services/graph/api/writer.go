package api

import (
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/api/expiry"
	"github.com/coppice-gc/coppice/services/graph/api/objects"
	"github.com/coppice-gc/coppice/services/graph/api/operations"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// WriterConfig is what ServeWriter needs in addition to a serve.Config.
type WriterConfig struct {
	*writer.Writer
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	Objects    objects.WriterConfig
	Operations operations.Config
	Expiry     expiry.Config
}

// ServeWriter serves commands and linearizable reads until it is stopped.
func ServeWriter(c serve.Config, w WriterConfig) (*serve.Server, error) {
	served, err := serve.New(c, c.Process.Writers(), "coppice-writer", "Coppice's object API: commands and reads", "")
	if err != nil {
		return nil, err
	}
	s := serve.NewWriter(served, w.Writer, w.Now)
	policies := expiry.New(s, w.Expiry)
	verbs, ops := objects.NewWriter(s, policies, w.Objects), operations.NewWriter(s, w.Operations)
	return s.Serve(
		s.Verb(bus.VerbCreate, verbs.Create),
		s.Verb(bus.VerbUpdate, verbs.Update),
		s.Verb(bus.VerbUpdateStatus, verbs.UpdateStatus),
		s.Verb(bus.VerbApply, verbs.Apply),
		s.Verb(bus.VerbApplyAcross, verbs.ApplyAcross),
		s.Verb(bus.VerbPatch, verbs.Patch),
		s.Verb(bus.VerbImport, verbs.Import),
		s.Verb(bus.VerbRestore, verbs.Restore),
		s.Verb(bus.VerbDelete, verbs.Delete),
		s.Verb(bus.VerbDeleteCollection, verbs.DeleteCollection),
		s.Verb(bus.VerbRemoveFinalizer, verbs.RemoveFinalizer),
		s.Verb(bus.VerbForceFinalizer, verbs.ForceFinalizer),
		s.Verb(bus.VerbProtect, verbs.Protect),
		s.Verb(bus.VerbUnprotect, verbs.Protect),
		s.Verb(bus.VerbDeleteUnreadable, verbs.DeleteUnreadable),
		s.Verb(bus.VerbVeto, verbs.Veto),
		s.Verb(bus.VerbGet, verbs.Get),
		s.Verb(bus.VerbList, verbs.List),
		s.Verb(bus.VerbStatus, verbs.Status),
		s.Verb(bus.VerbResume, verbs.Resume),
		s.Verb(bus.VerbReadPast, verbs.ReadPast),
		s.Verb(bus.VerbBrakes, verbs.Brakes),
		s.Verb(bus.VerbReleaseBrake, verbs.ReleaseBrake),

		s.Operation(bus.OpPropose, ops.Propose, bus.RoleProcessor),
		s.Operation(bus.OpOrphan, ops.Orphan, bus.RoleFinalizers),
		s.Operation(bus.OpFinish, ops.Finish, bus.RoleFinalizers),
		s.Operation(bus.OpDrain, ops.Drain, bus.RoleFinalizers),
		s.Operation(bus.OpCycles, ops.Cycles, bus.RoleScanner),
		s.Operation(bus.OpExpire, ops.Expire, bus.RoleScanner),
		s.Operation(bus.OpExamine, policies.Examine, bus.RoleScanner),
		s.Operation(bus.OpRepublish, ops.Republish, bus.RoleScanner),
	)
}
