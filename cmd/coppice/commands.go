package main

import "github.com/spf13/cobra"

// commands are all commands, in the order in which help lists them.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCommand(), a.upCommand(),
		a.importCommand(),
		a.applyCommand(), a.createCommand(), a.replaceCommand(), a.patchCommand(), a.labelCommand(), a.annotateCommand(), a.editCommand(), a.protectCommand(), a.unprotectCommand(), a.diffCommand(), a.getCommand(), a.describeCommand(), a.deleteCommand(), a.undoCommand(), a.planCommand(), a.explainCommand(), a.usesCommand(), a.usedByCommand(), a.treeCommand(), a.watchCommand(),
		a.eventsCommand(), a.waitCommand(), a.verifyCommand(), a.rebuildCommand(), a.recordCommand(), a.replayCommand(), a.logCommand(), a.archiveCommand(), a.realmCommand(), a.secretCommand(), a.parkedCommand(), a.brakeCommand(), a.policyCommand(), a.finalizerCommand(),
		a.apiResourcesCommand(), a.natsConfigCommand(), a.benchCommand(), a.versionCommand(),
		a.graphCommand(), a.processorCommand(), a.finalizersCommand(), a.scannerCommand(),
	}
}
