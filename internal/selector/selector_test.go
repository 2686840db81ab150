package selector_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/selector"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "web", "tier": "front", "empty": "", "example.com/x": "y"}
	for text, want := range map[string]bool{
		"":                         true,
		" ":                        true,
		"app=web":                  true,
		"app==web":                 true,
		"app = web , tier=front":   true,
		"app=db":                   false,
		"app=web,tier=db":          false,
		"app!=db":                  true,
		"app!=web":                 false,
		"missing!=x":               true,
		"app":                      true,
		"missing":                  false,
		"!missing":                 true,
		"!app":                     false,
		"app in (db, web)":         true,
		"app in (db)":              false,
		"missing in (x)":           false,
		"app notin (db)":           true,
		"app notin (db,web)":       false,
		"missing notin (x)":        true,
		"empty=":                   true,
		"example.com/x in (y),app": true,
	} {
		s, err := selector.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if got := s.Matches(labels); got != want {
			t.Errorf("%q matches: %t, want %t", text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"=x", "!", "app=web,", ",app", "app in", "app in (a", "app within (a)", "a b", "a=b=c", "app in (a b)", "in (a)"} {
		if s, err := selector.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("app=web,tier!=db,env in (prod,test),!legacy")
	f.Fuzz(func(_ *testing.T, text string) {
		if s, err := selector.Parse(text); err == nil {
			s.Matches(map[string]string{"app": "web"})
		}
	})
}
