package oracle

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Deviation is what Coppice answers otherwise than Kubernetes, by decision.
type Deviation struct {
	Kubernetes, Coppice string
	Because             string
}

var deviates = regexp.MustCompile(`^coppice says ("(?:[^"\\]|\\.)*") for ("(?:[^"\\]|\\.)*"): (\S.*)$`)

// Deviations takes the deviations out of the lines of an input.
func Deviations(input string) (rest []string, all []Deviation, err error) {
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		m := deviates.FindStringSubmatch(line)
		switch {
		case m != nil:
			says, errSays := strconv.Unquote(m[1])
			instead, errInstead := strconv.Unquote(m[2])
			if errSays != nil || errInstead != nil || says == instead {
				return nil, nil, fmt.Errorf("no deviation: %s", line)
			}
			all = append(all, Deviation{Kubernetes: instead, Coppice: says, Because: m[3]})
		case strings.HasPrefix(line, "coppice"):
			return nil, nil, fmt.Errorf(`%s: a deviation is: coppice says "..." for "...": why`, line)
		case line != "":
			rest = append(rest, line)
		}
	}
	return rest, all, nil
}

// Deviated is what Coppice has to answer where Kubernetes' answer is recorded.
func Deviated(recorded string, all []Deviation) (string, error) {
	for _, d := range all {
		if !strings.Contains(recorded, d.Kubernetes) {
			return "", fmt.Errorf("nothing to deviate from: Kubernetes does not answer %q", d.Kubernetes)
		}
		recorded = strings.ReplaceAll(recorded, d.Kubernetes, d.Coppice)
	}
	return recorded, nil
}
