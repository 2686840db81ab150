package oracle

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A CommandLine is a recorded command line of kubectl, with what it did.
type CommandLine struct {
	Line    string   // without kubectl
	Code    int      // exit code
	Out     []string // lines of the standard output, as Columns returns them
	Err     []string // those of the standard error
	Effects []string // "gone", "changed" or "new", and NAMESPACE/PLURAL/NAME
}

// ParseCommandLines parses the output of the command kubectl of a script in testdata/commands.
func ParseCommandLines(output string) ([]CommandLine, error) {
	var list []CommandLine
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if text, is := strings.CutPrefix(line, "$ kubectl "); is {
			list = append(list, CommandLine{Line: text})
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%q belongs to no command line", line)
		}
		c := &list[len(list)-1]
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "exit":
			var err error
			if c.Code, err = strconv.Atoi(rest); err != nil {
				return nil, err
			}
		case "out:":
			c.Out = append(c.Out, rest)
		case "err:":
			c.Err = append(c.Err, rest)
		case "gone", "changed", "new":
			c.Effects = append(c.Effects, line)
		default:
			return nil, fmt.Errorf("%s: %q is neither an output nor an effect", c.Line, line)
		}
	}
	return list, nil
}

var (
	gap = regexp.MustCompile(` {2,}|\t`)
	age = regexp.MustCompile(`\b(\d+(ms|[smhd]))+\b`)
	uid = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
)

// Columns returns a line of an output as it is recorded: with two blanks between columns, and without what differs
// between runs.
func Columns(line string) string {
	line = uid.ReplaceAllString(age.ReplaceAllString(strings.TrimSpace(line), "AGE"), "UID")
	return gap.ReplaceAllString(line, "  ")
}

// Effects returns what has happened to objects, given their versions before and after, as CommandLine has it. Their names
// are as NAMESPACE/PLURAL/NAME.
func Effects[Version comparable](before, after map[string]Version) []string {
	var list []string
	for name, version := range before {
		if is, exists := after[name]; !exists {
			list = append(list, "gone "+name)
		} else if is != version {
			list = append(list, "changed "+name)
		}
	}
	for name := range after {
		if _, existed := before[name]; !existed {
			list = append(list, "new "+name)
		}
	}
	slices.Sort(list)
	return list
}

// Arguments splits a command line of a recording into arguments. Quotation marks enclose blanks.
func Arguments(line string) ([]string, error) {
	var args []string
	var word strings.Builder
	in, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			in, quote = true, r
		case r == ' ':
			if in {
				args = append(args, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quotation mark is missing: %s", line)
	}
	if in {
		args = append(args, word.String())
	}
	return args, nil
}
