package chart

import (
	"strings"
	"testing"
)

// Next goes through the objects in a state by levels, without those that have others below them, and begins again.
func TestNext(t *testing.T) {
	t.Parallel()
	const text = `root state=Blocked
  waits state=Blocked
    cause state=Blocked
    other state=Present
  second state=Blocked
alone state=Protected
far in=billing state=Blocked
`
	for _, c := range []struct {
		state     State
		namespace string
		want      string
	}{
		{Blocked, "", "far second cause far"},
		{Blocked, "billing", "far far"},
		{Blocked, "shop", "second cause second"},
		{Protected, "", "alone alone"},
		{Garbage, "", ""},
		{Present, "", "other other"},
	} {
		d := draw(text)
		s := &Scope{}
		if c.namespace != "" {
			s.Namespace = &c.namespace
		}
		var got []string
		for after := uint32(0); len(got) <= strings.Count(c.want, " "); got = append(got, d.names[after]) {
			if after = d.chart.Next(d.graph, s, c.state, after); after == 0 {
				break
			}
		}
		if is := strings.Join(got, " "); is != c.want {
			t.Errorf("%s in %q: %q, want %q", stateNames[c.state], c.namespace, is, c.want)
		}
	}
}
