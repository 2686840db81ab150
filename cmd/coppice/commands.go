package main

import (
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/archives"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/audit"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/backups"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/deletion"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/doctor"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/operate"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/read"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/realm"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/recordings"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/write"
)

// commands are all commands, by the groups of help, which sorts those of a group by name.
func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		// Start here:
		demoCommand(a),
		upCommand(a),
		write.ImportCommand(a),

		// Objects:
		write.ApplyCommand(a),
		write.CreateCommand(a),
		write.ReplaceCommand(a),
		write.PatchCommand(a),
		write.LabelCommand(a),
		write.AnnotateCommand(a),
		write.EditCommand(a),
		write.ProtectCommand(a),
		write.UnprotectCommand(a),
		write.DiffCommand(a),
		deletion.DeleteCommand(a),
		deletion.RestoreCommand(a),
		deletion.PlanCommand(a),
		read.GetCommand(a),
		read.DescribeCommand(a),
		read.ExplainCommand(a),
		read.UsesCommand(a),
		read.UsedByCommand(a),
		read.TreeCommand(a),
		read.WatchCommand(a),

		// Operate:
		read.EventsCommand(a),
		audit.Command(a),
		read.WaitCommand(a),
		operate.VerifyCommand(a),
		rebuildCommand(a),
		recordings.RecordCommand(a),
		recordings.ReplayCommand(a),
		recordings.LogCommand(a),
		archives.Command(a),
		backups.BackupCommand(a, version()),
		backups.RestoreCommand(a),
		realm.Command(a),
		secretCommand(a),
		operate.ParkedCommand(a),
		operate.BrakeCommand(a),
		operate.PolicyCommand(a),
		operate.FinalizerCommand(a),
		operate.LeaderCommand(a),
		read.APIResourcesCommand(a),
		natsConfigCommand(a),
		authCommand(a),
		readyCommand(a),
		doctor.Command(a, defaultServices(), serviceURL),
		benchCommand(a),
		versionCommand(a),
		manCommand(a),

		// Services:
		graphCommand(a),
		processorCommand(a),
		finalizersCommand(a),
		scannerCommand(a),
		consoleCommand(a),
	}
}
