package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

func listPoliciesCommand(a *cli.App) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "Show what the last evaluation of expiry policies has found",
		Long: `Show what the last evaluation of expiry policies has found: the number of objects to which a
policy applies (MATCHES), which it would delete now if no brake pauses that (DUE), whose notice
lasts (NOTICE), which a veto keeps (VETOED), and which it has deleted (DELETED).

The graph service keeps this in memory: it counts from when it became the writer.`,
		Example: `  coppice policy list
  coppice policy list previews -o json`,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return listPolicies(ctx, s, args, output)
		}),
	}
	c.Flags().StringVarP(&output, "output", "o", cli.FormatTable, "table, wide or json")
	cli.CompleteFlag(c, "output", cli.FormatTable, cli.FormatWide, cli.FormatJSON)
	a.ClientFlags(c)
	return c
}

// policyJSON is what the last evaluation of a policy has found, for programs.
type policyJSON struct {
	Name       string     `json:"name"`
	Generation int64      `json:"generation,omitempty"`
	Evaluated  *time.Time `json:"evaluated,omitempty"`
	Objects    uint64     `json:"objects"`
	Matches    uint64     `json:"matches"`
	Due        uint64     `json:"due"`
	Notice     uint64     `json:"notice"`
	Vetoed     uint64     `json:"vetoed"`
	Protected  uint64     `json:"protected"`
	// NoResult is the number of objects on which the condition has no result, for a reason such as Failure.
	NoResult uint64 `json:"noResult,omitempty"`
	Failure  string `json:"failure,omitempty"`
	// Deleted counts since the time Since.
	Deleted   uint64     `json:"deleted"`
	Since     *time.Time `json:"since,omitempty"`
	Error     string     `json:"error,omitempty"`
	ErrorTime *time.Time `json:"errorTime,omitempty"`
}

func listPolicies(ctx context.Context, s *cli.Session, names []string, output string) error {
	if err := cli.CheckFormat(output, cli.FormatTable, cli.FormatWide, cli.FormatJSON); err != nil {
		return err
	}
	found, err := s.Client.Operations().ExpiryPolicies(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(found, func(p *client.ExpiryStatus) bool { return p.GetPolicy() == name }) {
			return fmt.Errorf("there is no expiry policy %q in realm %q", name, s.Realm)
		}
	}
	if len(names) > 0 {
		found = slices.DeleteFunc(found, func(p *client.ExpiryStatus) bool { return !slices.Contains(names, p.GetPolicy()) })
	}
	if output == cli.FormatJSON {
		list := []policyJSON{}
		for _, p := range found {
			list = append(list, policyJSONOf(p))
		}
		return s.WriteJSON(list)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(s.Stderr, "the realm has no expiry policy")
		return err
	}
	return policyTable(s, found, output == cli.FormatWide)
}

func policyTable(s *cli.Session, found []*client.ExpiryStatus, wide bool) error {
	header := []string{"NAME", "MATCHES", "DUE", "NOTICE", "VETOED", "DELETED", "EVALUATED", "PROBLEM"}
	if wide {
		header = append(header, "OBJECTS", "PROTECTED", "DELETED SINCE")
	}
	t := terminal.Table{W: s.Stdout}
	if err := t.Text(header...); err != nil {
		return err
	}
	for _, p := range found {
		row := []string{p.GetPolicy(), "-", "-", "-", "-", fmt.Sprint(p.GetDeleted()), "not yet", cmp.Or(terminal.Printable(policyProblem(p)), "<none>")}
		if p.GetEvaluated() != 0 {
			for i, n := range []uint64{p.GetMatched(), p.GetDue(), p.GetNoticed(), p.GetVetoed()} {
				row[1+i] = fmt.Sprint(n)
			}
			row[6] = terminal.Age(s.Clock().Sub(time.UnixMicro(p.GetEvaluated()))) + " ago"
		}
		if wide {
			row = append(row, fmt.Sprint(p.GetExamined()), fmt.Sprint(p.GetProtected()), terminal.Clock(time.UnixMicro(p.GetSince()), s.Clock()))
		}
		if err := t.Text(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

// policyProblem says what is wrong with a policy, in few words.
func policyProblem(p *client.ExpiryStatus) string {
	switch {
	case p.GetError() != "":
		return p.GetError()
	case p.GetFailed() > 0:
		return fmt.Sprintf("no result on %s: %s", terminal.Count(int(p.GetFailed()), "object"), p.GetFailure())
	}
	return ""
}

func policyJSONOf(p *client.ExpiryStatus) policyJSON {
	at := func(micros int64) *time.Time {
		if micros == 0 {
			return nil
		}
		t := time.UnixMicro(micros).UTC()
		return &t
	}
	return policyJSON{
		Name: p.GetPolicy(), Generation: p.GetGeneration(), Evaluated: at(p.GetEvaluated()),
		Objects: p.GetExamined(), Matches: p.GetMatched(), Due: p.GetDue(), Notice: p.GetNoticed(), Vetoed: p.GetVetoed(), Protected: p.GetProtected(),
		NoResult: p.GetFailed(), Failure: p.GetFailure(), Deleted: p.GetDeleted(), Since: at(p.GetSince()), Error: p.GetError(), ErrorTime: at(p.GetErrorTime()),
	}
}
