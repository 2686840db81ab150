package whatif

import (
	"fmt"
	"io"
	"strings"
)

// Write prints a report for people.
func (p *Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, d := range p.Objects {
		fmt.Fprintf(&b, "%s: %s in the log, %s under these settings\n", d.Object, d.Log.State, d.WhatIf.State)
		d.Log.write(&b, "log")
		d.WhatIf.write(&b, "what if")
	}
	if len(p.Dropped) > 0 {
		b.WriteString("Events that no longer apply:\n")
		for _, d := range p.Dropped {
			fmt.Fprintf(&b, "  %d  %s  %s  by %s: %s\n", d.Revision, d.Event, d.Object, d.Actor, d.Why)
		}
	}
	fmt.Fprintf(&b, "%s, %s, up to revision %d\n", count(len(p.Objects), "object differs", "objects differ"),
		count(len(p.Dropped), "event no longer applies", "events no longer apply"), p.Revision)
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (f *Final) write(b *strings.Builder, side string) {
	for _, o := range f.Owners {
		fmt.Fprintf(b, "  %-8s owner %s\n", side, o)
	}
	for _, name := range f.Finalizers {
		fmt.Fprintf(b, "  %-8s finalizer %s\n", side, name)
	}
	for _, c := range f.Causes {
		by := ""
		if c.Actor != "" {
			by = "  by " + c.Actor
		}
		fmt.Fprintf(b, "  %-8s %6d  %s  %s  %s: %s%s\n", side, c.Revision, c.Time.Local().Format("15:04:05"), c.Event, c.Object, c.Reason, by)
	}
}
