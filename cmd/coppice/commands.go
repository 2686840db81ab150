package main

import "github.com/spf13/cobra"

// commands are all commands, in the order in which help lists them.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.upCommand(),
		a.natsConfigCommand(), a.benchCommand(),
		a.graphCommand(), a.processorCommand(), a.finalizersCommand(), a.scannerCommand(),
	}
}
