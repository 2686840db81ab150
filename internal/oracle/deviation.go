package oracle

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Input is the input of a case.
type Input struct {
	Lines      []string
	Deviations []Replacement // of the recorded output by what Coppice replies
	Races      []Replacement // of the recorded output by what Kubernetes replies in another order of its work
}

// Replacement names a text of the recorded output, and what another server or run has instead.
type Replacement struct {
	Recorded, Instead string
	Because           string
}

var (
	replaces = regexp.MustCompile(`^(coppice says|kubernetes may say) ("(?:[^"\\]|\\.)*") for ("(?:[^"\\]|\\.)*"): (\S.*)$`)
	announce = regexp.MustCompile(`^(coppice|kubernetes)`)
)

// ParseInput splits an input into its lines, deviations and races.
func ParseInput(input string) (Input, error) {
	var in Input
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		m := replaces.FindStringSubmatch(line)
		switch {
		case m != nil:
			instead, errInstead := strconv.Unquote(m[2])
			recorded, errRecorded := strconv.Unquote(m[3])
			if errInstead != nil || errRecorded != nil || instead == recorded {
				return Input{}, fmt.Errorf("neither a deviation nor a race: %s", line)
			}
			r := Replacement{Recorded: recorded, Instead: instead, Because: m[4]}
			if m[1] == "coppice says" {
				in.Deviations = append(in.Deviations, r)
			} else {
				in.Races = append(in.Races, r)
			}
		case announce.MatchString(line):
			return Input{}, fmt.Errorf(`%s: a deviation is: coppice says "..." for "...": why; a race: kubernetes may say "..." for "...": why`, line)
		case line != "":
			in.Lines = append(in.Lines, line)
		}
	}
	return in, nil
}

// Deviated returns what Coppice must reply, given the recorded reply of Kubernetes.
func (in Input) Deviated(recorded string) (string, error) {
	for _, d := range in.Deviations {
		if !strings.Contains(recorded, d.Recorded) {
			return "", fmt.Errorf("nothing to deviate from: Kubernetes does not answer %q", d.Recorded)
		}
		recorded = strings.ReplaceAll(recorded, d.Recorded, d.Instead)
	}
	return recorded, nil
}

// CheckRaces returns an error unless the recorded output has, of each race, the recorded text
// once, and not the other.
func (in Input) CheckRaces(recorded string) error {
	for _, r := range in.Races {
		if strings.Count(recorded, r.Recorded) != 1 || strings.Contains(recorded, r.Instead) {
			return fmt.Errorf("no race: Kubernetes must have answered %q, once, and not %q", r.Recorded, r.Instead)
		}
	}
	return nil
}

// Recorded returns the output to record for a reply of Kubernetes: the same for each order
// of its work that the input names as a race.
func (in Input) Recorded(reply string) string {
	for _, r := range in.Races {
		reply = strings.ReplaceAll(reply, r.Instead, r.Recorded)
	}
	return reply
}
