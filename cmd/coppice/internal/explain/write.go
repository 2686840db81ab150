package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// Write writes the explanation for people. Times are relative to now.
func (e *Explanation) Write(out io.Writer, now time.Time) error {
	if _, err := fmt.Fprintln(out, terminal.Printable(e.Summary)); err != nil {
		return err
	}
	w := &writer{Explanation: e, Fields: terminal.Fields{W: out}, now: now}
	w.write()
	return nil
}

// writer writes one explanation.
type writer struct {
	*Explanation
	terminal.Fields
	now time.Time
}

func (e *writer) write() {
	if e.State == Terminating && len(e.Because) > 0 {
		e.Field("Why", strings.Join(e.Because, ", because "))
	}
	if e.Protected != "" {
		e.Field("Protection", e.Protected)
	}
	if e.ExpiresAt != nil {
		e.Field("Expires", terminal.Clock(*e.ExpiresAt, e.now))
	}
	if len(e.noticeTexts) > 0 {
		e.List("Notices", e.noticeTexts)
	}
	if len(e.ExpiryPolicies) > 0 {
		var policies [][]string
		for _, p := range e.ExpiryPolicies {
			policies = append(policies, []string{p.Policy, p.Says})
		}
		e.Section("Expiry policies", policies)
	}
	if e.State != Removed {
		e.Section("Owners", e.ownerRows())
		dependents := "<none>"
		if e.Dependents.All > 0 {
			dependents = fmt.Sprintf("%s (%d blocking)", terminal.Count(int(e.Dependents.All), "object"), e.Dependents.Blocking)
		}
		e.Field("Dependents", dependents)
		var uses [][]string
		for _, u := range e.Uses {
			uses = append(uses, []string{terminal.WithNamespace(u.Object, u.Namespace), u.State})
		}
		if len(uses) > 0 {
			e.Section("Uses", uses)
		}
		if e.Users > 0 {
			e.Field("Used by", terminal.Count(int(e.Users), "object")+terminal.Prefixed(": ", terminal.Short(e.UsedBy, 3)))
		}
		e.Section("Finalizers", e.finalizerRows())
	}
	if len(e.contents) > 0 {
		e.Section("Contents", e.contents)
	}
	e.blockers()
	if e.Dependents != nil && len(e.Dependents.Late) > 0 {
		e.Section("Created since it was marked", e.lateRows())
	}
	if e.Agent != nil {
		e.Field("Agent", e.Agent.is.Text())
	}
	if len(e.Pending) > 0 {
		e.Section("Pending", e.pendingRows())
	}
	if len(e.Causes) > 0 {
		e.Section("Causes", e.causeRows())
	}
	if len(e.Skipped) > 0 {
		e.Field("Skipped", history.Ranges(e.Skipped)+": these messages of the log are no commits of the realm, and have no effect; see coppice events")
	}
}

func (e *writer) blockers() {
	if e.Dependents == nil || len(e.Dependents.Blockers) == 0 {
		return
	}
	list := e.Dependents.Blockers
	_, _ = fmt.Fprintln(e.W, "Blocked by:")
	for _, b := range list[:min(len(list), terminal.Listed)] {
		_, _ = fmt.Fprintf(e.W, "  %s\n", terminal.Printable(b.Object+terminal.Prefixed("  ", b.BlockedBy)))
	}
	switch more := len(list) - terminal.Listed; {
	case e.Dependents.Truncated:
		_, _ = fmt.Fprintln(e.W, "  and more")
	case more > 0:
		_, _ = fmt.Fprintf(e.W, "  and %d more\n", more)
	}
}

func (e *writer) lateRows() (rows [][]string) {
	for _, l := range e.Dependents.Late {
		rows = append(rows, []string{"by " + l.Actor, terminal.Count(l.Count, "dependent"), "the last, " + l.Last + ", at " + terminal.Clock(l.Time, e.now)})
	}
	return rows
}

func (e *writer) ownerRows() (rows [][]string) {
	for _, o := range e.Owners {
		var says []string
		if o.Controller {
			says = append(says, "controller")
		}
		if o.Blocking {
			says = append(says, "blocking")
		}
		if len(says) == 0 {
			says = append(says, "owner")
		}
		class := strings.ToLower(o.Class) + terminal.Prefixed(": ", o.Why)
		if o.UnknownUntil != nil {
			class += " (kept until " + terminal.Clock(*o.UnknownUntil, e.now) + ")"
		}
		rows = append(rows, []string{strings.Repeat("  ", o.Depth) + o.Owner, strings.Join(says, ", "), class})
	}
	return rows
}

func (e *writer) finalizerRows() (rows [][]string) {
	for i, f := range e.Finalizers {
		if i == terminal.Listed {
			return append(rows, []string{fmt.Sprintf("and %d more", len(e.Finalizers)-i)})
		}
		row := []string{f.Name, f.text}
		if f.Since != nil {
			row = slices.Insert(row, 1, "for "+terminal.Age(e.now.Sub(*f.Since)))
		}
		rows = append(rows, row)
	}
	return rows
}

func (e *writer) pendingRows() (rows [][]string) {
	for _, o := range e.Pending {
		due := "since " + terminal.Clock(o.Since, e.now)
		if o.Due != nil {
			due += ", due " + terminal.Clock(*o.Due, e.now)
		}
		rows = append(rows, []string{o.Object, o.What, due})
	}
	return rows
}

func (e *writer) causeRows() (rows [][]string) {
	for _, c := range e.Causes {
		command := ""
		if c.Reason == "Requested" {
			command = c.Actor + ": " + c.Verb
		}
		rows = append(rows, []string{fmt.Sprint(c.Revision), terminal.Clock(c.Time, e.now), c.Type, terminal.WithNamespace(c.Resource+"/"+c.Name, c.Namespace), command})
	}
	return rows
}
