package main

import (
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/deletion"
)

// commands are all commands. Help sorts those of a group by name.
func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		demoCommand(a),
		upCommand(a),
		importCommand(a),

		applyCommand(a),
		createCommand(a),
		replaceCommand(a),
		patchCommand(a),
		labelCommand(a),
		annotateCommand(a),
		editCommand(a),
		protectCommand(a),
		unprotectCommand(a),
		diffCommand(a),
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
		recordCommand(a),
		replayCommand(a),
		logCommand(a),
		archiveCommand(a),
		realmCommand(a),
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
