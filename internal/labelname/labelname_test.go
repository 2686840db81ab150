package labelname

import (
	"regexp"
	"testing"
)

// The rules of names, as Kubernetes spells them.
var scanners = []struct {
	name    string
	scan    func(string) bool
	pattern *regexp.Regexp
}{
	{"label", IsLabel, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)},
	{"subdomain", IsSubdomain, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)},
	{"name part", isNamePart, regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)},
}

func compareScanners(t *testing.T, s string) {
	t.Helper()
	for _, p := range scanners {
		if got, want := p.scan(s), p.pattern.MatchString(s); got != want {
			t.Fatalf("%s: %q: %t, want %t", p.name, s, got, want)
		}
	}
}

// TestScannersAgreeWithPatterns compares them on all strings of up to five
// characters that matter.
func TestScannersAgreeWithPatterns(t *testing.T) {
	t.Parallel()
	alphabet := []string{"a", "z", "A", "0", "-", ".", "_", "/", "\n", "é"}
	last := []string{""}
	for range 6 {
		var longer []string
		for _, s := range last {
			compareScanners(t, s)
			for _, c := range alphabet {
				longer = append(longer, s+c)
			}
		}
		last = longer
	}
	for c := range 256 {
		compareScanners(t, string([]byte{byte(c)}))
		compareScanners(t, "a"+string([]byte{byte(c)})+"a")
	}
}

func FuzzScanners(f *testing.F) {
	f.Add("example.com")
	f.Add("a-b.c_d")
	f.Add("a.-b")
	f.Fuzz(compareScanners)
}
