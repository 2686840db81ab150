package oracle

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
)

// columns aligns cells in columns.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // it writes to memory and cannot fail
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// each plays each request after the given ones, in a world of its own.
func (s *Script) each(ctx context.Context, lines []string) (string, error) {
	var rows [][]string
	var given []string
	for _, line := range lines {
		if setup, is := strings.CutPrefix(line, "given "); is {
			given = append(given, setup)
			continue
		}
		s.newWorld()
		if err := s.given(ctx, given); err != nil {
			return "", err
		}
		o, err := s.line(ctx, line)
		if err != nil {
			return "", err
		}
		rows = append(rows, []string{line, o.String()})
	}
	return columns(rows), nil
}

// given plays requests that the server must accept.
func (s *Script) given(ctx context.Context, lines []string) error {
	for _, line := range lines {
		o, err := s.line(ctx, line)
		if err != nil {
			return err
		}
		if !o.accepted() {
			return failed(line, o)
		}
	}
	return nil
}

// policies are the options of a DELETE that concern dependents.
func policies() []string {
	return []string{"", "orphanDependents=true", "orphanDependents=false", "policy=Orphan", "policy=Background", "policy=Foreground"}
}

func headed(by string) [][]string {
	row := []string{by}
	for _, p := range policies() {
		row = append(row, named(p))
	}
	return [][]string{row}
}

func named(policy string) string {
	if policy == "" {
		return "(nil)"
	}
	return strings.TrimPrefix(policy, "policy=")
}

// deleteTable deletes an object for each set of finalizers and each policy.
func (s *Script) deleteTable(ctx context.Context, lines []string) (string, error) {
	rows := headed("finalizers")
	for _, finalizers := range lines {
		row := []string{finalizers}
		for _, p := range policies() {
			s.newWorld()
			if err := s.given(ctx, []string{"create widgets/a " + finalizers}); err != nil {
				return "", err
			}
			o, err := s.line(ctx, "delete widgets/a "+p)
			if err != nil {
				return "", err
			}
			row = append(row, cell(o))
		}
		rows = append(rows, row)
	}
	return columns(rows), nil
}

// repeatTable deletes objects twice. A row has the first policy, a column the second. The
// input is the finalizers of the objects.
func (s *Script) repeatTable(ctx context.Context, lines []string) (string, error) {
	rows := headed("first")
	for _, first := range policies() {
		row := []string{named(first)}
		for _, second := range policies() {
			s.newWorld()
			if err := s.given(ctx, []string{"create widgets/a " + strings.Join(lines, " ")}); err != nil {
				return "", err
			}
			once, err := s.line(ctx, "delete widgets/a "+first)
			if err != nil {
				return "", err
			}
			if once.after == nil {
				row = append(row, "-")
				continue
			}
			again, err := s.line(ctx, "delete widgets/a "+second)
			if err != nil {
				return "", err
			}
			row = append(row, cell(again))
		}
		rows = append(rows, row)
	}
	return columns(rows), nil
}

// cell describes an object after a DELETE: "removed", or the code and the finalizers. It
// adds the other fields only if they are not those of every marked object: deleted, grace
// 0, generation 2.
func cell(o *outcome) string {
	if !o.accepted() {
		return o.String()
	}
	if o.after == nil && o.reply.Code == 200 && o.reply.Object == nil {
		return "removed"
	}
	finalizers := strings.Trim(fmt.Sprint(o.after.list("finalizers")), "[]")
	short := strings.NewReplacer("example.com/custom", "custom", "foregroundDeletion", "fg", " ", "+").Replace(finalizers)
	text := fmt.Sprintf("%d %s", o.reply.Code, short)
	if as := "generation=2 deleted grace=0 finalizers=[" + finalizers + "]"; o.reply.Object == nil || o.summary(o.reply.Object) != as || o.summary(o.after) != as {
		return o.String()
	}
	return text
}
