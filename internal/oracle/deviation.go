package oracle

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Deviation is a deliberate difference between the replies of Coppice and of Kubernetes.
type Deviation struct {
	Kubernetes, Coppice string
	Because             string
}

var deviates = regexp.MustCompile(`^coppice says ("(?:[^"\\]|\\.)*") for ("(?:[^"\\]|\\.)*"): (\S.*)$`)

// Deviations splits the lines of an input into deviations and the rest.
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

// Deviated returns what Coppice must reply, given the recorded reply of Kubernetes.
func Deviated(recorded string, all []Deviation) (string, error) {
	for _, d := range all {
		if !strings.Contains(recorded, d.Kubernetes) {
			return "", fmt.Errorf("nothing to deviate from: Kubernetes does not answer %q", d.Kubernetes)
		}
		recorded = strings.ReplaceAll(recorded, d.Kubernetes, d.Coppice)
	}
	return recorded, nil
}
