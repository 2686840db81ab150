package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/bus"
)

// realmSequences is the value of a flag that names a sequence for each of some realms.
type realmSequences struct {
	name  string
	texts []string
}

func (f *realmSequences) add(c *cobra.Command, name, usage string) {
	f.name = name
	c.Flags().StringArrayVar(&f.texts, name, nil, usage)
}

// addAcceptLoss adds the flag for losses that must not prevent a start.
func (f *realmSequences) addAcceptLoss(c *cobra.Command) {
	f.add(c, "accept-loss", "`REALM@SEQUENCE`, as the error at the start names it: continue without commits that the log has lost, and record the loss in the log; may be repeated")
}

// addRestored adds the flag for logs that were restored from a backup.
func (f *realmSequences) addRestored(c *cobra.Command) {
	f.add(c, "restored", "`REALM@SEQUENCE`: the log was restored from a backup, and its stream ended at this sequence; revisions continue higher, so that clients that know later ones list again; may be repeated")
}

// realms returns the sequences by realm.
func (f *realmSequences) realms() (map[string]uint64, error) {
	of := map[string]uint64{}
	for _, text := range f.texts {
		realm, number, _ := strings.Cut(text, "@")
		sequence, err := strconv.ParseUint(number, 10, 64)
		if bus.CheckRealm(realm) != nil || err != nil || sequence == 0 {
			return nil, fmt.Errorf("--%s %s: write REALM@SEQUENCE", f.name, text)
		}
		of[realm] = sequence
	}
	return of, nil
}
