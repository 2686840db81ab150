// Package manual writes the manual pages of commands, in the language of man(7).
package manual

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Source is what all pages say of the program.
type Source struct {
	Version string
	Date    time.Time // zero if it is not known
}

// Pages returns a command and the commands below it that have a page: all that are shown to users.
func Pages(root *cobra.Command) (all []*cobra.Command) {
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	all = append(all, root)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, Pages(c)...)
		}
	}
	return all
}

// Name returns the name of the page of a command, without the section.
func Name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// Write writes the page of a command.
func Write(w io.Writer, c *cobra.Command, s Source) error {
	p := page{w: bufio.NewWriter(w)}
	date := ""
	if !s.Date.IsZero() {
		date = s.Date.UTC().Format("2006-01-02")
	}
	p.printf(".TH %q 1 %q %q %q\n.nh\n.ad l\n", strings.ToUpper(Name(c)), date, "coppice "+s.Version, "Coppice")
	p.section("NAME")
	p.printf("%s \\- %s\n", escape(Name(c)), escape(c.Short))
	p.section("SYNOPSIS")
	p.printf("\\fB%s\\fR\n", escape(c.UseLine()))
	p.section("DESCRIPTION")
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	p.paragraphs(text)
	if len(c.Aliases) > 0 {
		p.paragraphs("Other names of the command: " + strings.Join(c.Aliases, ", ") + ".")
	}
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		p.section("EXAMPLES")
		p.verbatim(strings.Split(strings.TrimRight(c.Example, "\n"), "\n"))
	}
	var others []string
	if c.HasParent() {
		others = append(others, Name(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			others = append(others, Name(sub))
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		p.section("SEE ALSO")
		for i, other := range others {
			p.printf("\\fB%s\\fR(1)%s\n", escape(other), map[bool]string{true: ",", false: ""}[i < len(others)-1])
		}
	}
	return p.w.Flush()
}

// page writes the requests of a page. The writer remembers the first error.
type page struct{ w *bufio.Writer }

func (p *page) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format, args...) }

func (p *page) section(title string) { p.printf(".SH %s\n", title) }

// paragraphs writes text in which empty lines separate paragraphs. Indented lines keep their form.
func (p *page) paragraphs(text string) {
	for i, paragraph := range regexp.MustCompile(`\n(?:[ \t]*\n)+`).Split(strings.Trim(text, "\n"), -1) {
		if i > 0 {
			p.printf(".PP\n")
		}
		for lines := strings.Split(paragraph, "\n"); len(lines) > 0; {
			indented := isIndented(lines[0])
			n := slices.IndexFunc(lines, func(line string) bool { return isIndented(line) != indented })
			if n < 0 {
				n = len(lines)
			}
			if indented {
				p.verbatim(lines[:n])
			} else {
				p.printf("%s\n", lineStarts(escape(strings.Join(lines[:n], "\n"))))
			}
			lines = lines[n:]
		}
	}
}

func isIndented(line string) bool {
	return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
}

// verbatim writes lines as they are, indented.
func (p *page) verbatim(lines []string) {
	p.printf(".RS 2\n.nf\n")
	for _, line := range lines {
		p.printf("%s\n", lineStarts(escape(strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "  "))))
	}
	p.printf(".fi\n.RE\n")
}

// flags writes those flags that users see.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		p.printf(".TP\n")
		if f.Shorthand != "" && f.ShorthandDeprecated == "" {
			p.printf("\\fB\\-%s\\fR, ", escape(f.Shorthand))
		}
		p.printf("\\fB\\-\\-%s\\fR", escape(f.Name))
		if value != "" {
			p.printf("=\\fI%s\\fR", escape(value))
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" && f.DefValue != "0s" {
			p.printf(" (default %s)", escape(f.DefValue))
		}
		p.printf("\n%s\n", lineStarts(escape(usage)))
	})
}

var escapes = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`)

// escape returns text that man shows as it is, but for the beginnings of its lines.
func escape(text string) string { return escapes.Replace(text) }

// lineStarts protects dots, which begin a request at the beginning of a line.
func lineStarts(escaped string) string {
	lines := strings.Split(escaped, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
