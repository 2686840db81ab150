package main

import (
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/archives"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/deletion"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/realm"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/recordings"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/write"
)

// commands are all commands. Help sorts those of a group by name.
func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		demoCommand(a),
		upCommand(a),
		write.ImportCommand(a),

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
		getCommand(a),
		describeCommand(a),
		explainCommand(a),
		usesCommand(a),
		usedByCommand(a),
		treeCommand(a),
		watchCommand(a),

		eventsCommand(a),
		waitCommand(a),
		verifyCommand(a),
		rebuildCommand(a),
		recordings.RecordCommand(a),
		recordings.ReplayCommand(a),
		recordings.LogCommand(a),
		archives.Command(a),
		realm.Command(a),
		secretCommand(a),
		parkedCommand(a),
		brakeCommand(a),
		policyCommand(a),
		finalizerCommand(a),
		apiResourcesCommand(a),
		natsConfigCommand(a),
		benchCommand(a),
		versionCommand(a),

		graphCommand(a),
		processorCommand(a),
		finalizersCommand(a),
		scannerCommand(a),
	}
}
