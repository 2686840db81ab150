package main

import (
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
)

func (a *app) natsConfigCommand() *cobra.Command {
	var realms []string
	c := &cobra.Command{
		Use:     "nats-config",
		GroupID: "operate",
		Short:   "Print a NATS server configuration with a user for each role",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, r := range realms {
				if err := bus.CheckRealm(r); err != nil {
					return err
				}
			}
			return natsconf.Write(a.stdout, realms...)
		},
	}
	c.Flags().StringArrayVar(&realms, "realm", []string{bus.DefaultRealm}, "realm; may be repeated")
	return c
}
