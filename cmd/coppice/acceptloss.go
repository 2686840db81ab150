package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/bus"
)

// acceptLossFlag is the value of --accept-loss: the losses that must not prevent a start.
type acceptLossFlag []string

func (f *acceptLossFlag) add(c *cobra.Command) {
	c.Flags().StringArrayVar((*[]string)(f), "accept-loss", nil,
		"`REALM@SEQUENCE`, as the error at the start names it: continue without commits that the log has lost, and record the loss in the log; may be repeated")
}

// realms returns the sequences by realm.
func (f acceptLossFlag) realms() (map[string]uint64, error) {
	of := map[string]uint64{}
	for _, text := range f {
		realm, number, _ := strings.Cut(text, "@")
		sequence, err := strconv.ParseUint(number, 10, 64)
		if bus.CheckRealm(realm) != nil || err != nil || sequence == 0 {
			return nil, fmt.Errorf("--accept-loss %s: write REALM@SEQUENCE, as the error of the graph service names it", text)
		}
		of[realm] = sequence
	}
	return of, nil
}
