package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// status is the result of a check.
type status string

const (
	ok          status = "ok"
	attention   status = "attention"
	notExamined status = "not examined"
)

// finding is the result of one check.
type finding struct {
	// Check is what was examined, as "sync"; Subject is its realm, service or server.
	Check   string `json:"check"`
	Subject string `json:"subject,omitempty"`
	Status  status `json:"status"`
	// Found is what was found, and Do what to do about it; empty if nothing.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// findings collects the results of checks.
type findings []finding

func (f *findings) ok(check, subject, found string, args ...any) {
	*f = append(*f, finding{Check: check, Subject: subject, Status: ok, Found: fmt.Sprintf(found, args...)})
}

// attention adds a finding with what to do about it.
func (f *findings) attention(check, subject, do, found string, args ...any) {
	*f = append(*f, finding{Check: check, Subject: subject, Status: attention, Found: fmt.Sprintf(found, args...), Do: do})
}

func (f *findings) notExamined(check, subject, do, found string) {
	*f = append(*f, finding{Check: check, Subject: subject, Status: notExamined, Found: found, Do: do})
}

// failed adds the failure of a request that a check needs.
func (f *findings) failed(check, subject string, err error) {
	if errors.Is(err, client.ErrForbidden) {
		f.attention("permissions", subject, "connect as an operator; if this user is one, write the configuration of the NATS servers again with this version's 'coppice nats-config', and reload them twice", "%v", err)
		f.notExamined(check, subject, "", "this user may not ask for it")
		return
	}
	do := "see the log of the graph services, and 'coppice ready' there"
	if errors.Is(err, client.ErrServiceUnavailable) {
		do = "start a graph service: coppice graph; if one runs, 'coppice ready' on its machine says what it waits for"
	}
	f.attention(check, subject, do, "%v", err)
}

// needAttention reports whether a finding needs attention.
func (f findings) needAttention() bool {
	return slices.ContainsFunc(f, func(one finding) bool { return one.Status == attention })
}

// write writes the findings for people: what needs attention first.
func (f findings) write(a *cli.App, all bool) error {
	list := slices.Clone(f)
	order := []status{attention, notExamined, ok}
	slices.SortStableFunc(list, func(x, y finding) int {
		return cmp.Compare(slices.Index(order, x.Status), slices.Index(order, y.Status))
	})
	counts := map[status]int{}
	for _, one := range list {
		counts[one.Status]++
		if one.Status == ok && !all {
			continue
		}
		text := string(one.Status)
		switch one.Status {
		case attention:
			text = a.Ink().Red(strings.ToUpper(text))
		case notExamined:
			text = a.Ink().Yellow(text)
		}
		where := one.Check
		if one.Subject != "" {
			where += " of " + terminal.Printable(one.Subject)
		}
		if _, err := fmt.Fprintf(a.Stdout, "%s  %s: %s\n", text, where, terminal.Printable(one.Found)); err != nil {
			return err
		}
		if one.Do != "" {
			if _, err := fmt.Fprintf(a.Stdout, "    %s\n", one.Do); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(a.Stdout, "%d checks: %d ok, %d need attention, %d not examined\n", len(list), counts[ok], counts[attention], counts[notExamined])
	return err
}
