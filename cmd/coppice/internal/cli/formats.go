package cli

import (
	"context"
	"encoding/base64"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// The formats that -o names.
const (
	FormatText  = "text"
	FormatTable = "table"
	FormatWide  = "wide"
	FormatYAML  = "yaml"
	FormatJSON  = "json"
	FormatName  = "name"

	formatJSONPath       = "jsonpath"
	formatJSONPathAsJSON = "jsonpath-as-json"
	formatJSONPathFile   = "jsonpath-file"
	formatGoTemplate     = "go-template"
	formatGoTemplateFile = "go-template-file"
	formatColumns        = "custom-columns"
	formatColumnsFile    = "custom-columns-file"
)

// ObjectFormats are those in which commands print objects that they have read.
func ObjectFormats() []string {
	return []string{FormatTable, FormatWide, FormatYAML, FormatJSON, FormatName}
}

// TextFormats are those of commands that print text for people, or JSON for programs.
func TextFormats() []string { return []string{FormatText, FormatJSON} }

// resultFormats are those in which commands print the objects that they have written.
func resultFormats() []string { return []string{FormatText, FormatName, FormatYAML, FormatJSON} }

// CheckFormat refuses a format that is not among those that are known.
func CheckFormat(format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return UsageErrorf("-o %s is not known; there are %s", format, strings.Join(known, ", "))
}

// argumentOf describes what stands behind the equals sign of a format that needs it.
var argumentOf = map[string]string{
	formatJSONPath:       "TEMPLATE",
	formatJSONPathAsJSON: "TEMPLATE",
	formatJSONPathFile:   "FILE",
	formatGoTemplate:     "TEMPLATE",
	formatGoTemplateFile: "FILE",
	formatColumns:        "HEADER:PATH,...",
	formatColumnsFile:    "FILE",
}

// templateFunctions are those that kubectl adds to the functions of Go's templates.
var templateFunctions = template.FuncMap{
	"base64decode": func(text string) (string, error) {
		data, err := base64.StdEncoding.DecodeString(text)
		return string(data), err
	},
}

// OutputFormat is what -o says. template or columns is set for the formats with an
// argument.
type OutputFormat struct {
	Name     string
	template printing.Template
	columns  []jsonpath.Column
}

// ParseOutput reads -o, which has one of the formats that are known, or one with an argument.
func ParseOutput(text string, known ...string) (f OutputFormat, err error) {
	name, argument, _ := strings.Cut(text, "=")
	f.Name = name
	what, takes := argumentOf[name]
	switch {
	case !takes:
		for _, name := range slices.Sorted(maps.Keys(argumentOf)) {
			known = append(known, name+"="+argumentOf[name])
		}
		return f, CheckFormat(text, known...)
	case argument == "":
		return f, UsageErrorf("-o %s is incomplete: write -o %s=%s", name, name, what)
	case what == "FILE":
		content, err := os.ReadFile(argument)
		if err != nil {
			return f, err
		}
		argument = string(content)
	}
	switch name {
	case formatColumns:
		f.columns, err = jsonpath.ParseColumns(argument)
	case formatColumnsFile:
		f.columns, err = jsonpath.ReadColumns(argument)
	case formatGoTemplate, formatGoTemplateFile:
		f.template, err = template.New(name).Funcs(templateFunctions).Parse(argument)
	default:
		f.template, err = jsonpath.Parse(argument, name == formatJSONPathAsJSON)
	}
	if err != nil {
		return f, UsageErrorf("-o %w", err)
	}
	return f, nil
}

// IsTable reports whether the format has a row for each object.
func (f OutputFormat) IsTable() bool { return f.Name == FormatTable || f.Name == FormatWide }

// ResultFlag adds -o of commands that write objects.
func ResultFlag(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "output", "o", FormatText, "what is printed of the objects: text, name, yaml, json, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,...")
	CompleteFlag(c, "output", resultFormats()...)
}

// ResultPrinter returns the printer of an output that ResultFlag has read; nil for text, of which the command prints
// a line for each object. With list the printer makes one document of several objects.
func (s *Session) ResultPrinter(ctx context.Context, output string, list bool) (printing.Printer, error) {
	if output == "" || output == FormatText {
		return nil, nil
	}
	format, err := ParseOutput(output, resultFormats()...)
	if err != nil {
		return nil, err
	}
	return s.Printer(ctx, TableFlags{}, format, false, list), nil
}

// PrintResult prints an object of a reply, as get prints it.
func PrintResult(p printing.Printer, k client.Kind, o *client.Object) error {
	o.GetMetadata().Applied = nil
	return p.Object(k, o)
}

// TableFlags say what a table of objects shows.
type TableFlags struct {
	ShowLabels   bool
	LabelColumns []string
	ShowKind     bool
	NoHeaders    bool
	Namespaces   bool // a column with the namespaces
}

// Printer returns the printer of a format. With qualified a table has the types of objects before their names; with list
// the printer makes one document of several objects.
func (s *Session) Printer(ctx context.Context, f TableFlags, format OutputFormat, qualified, list bool) printing.Printer {
	switch format.Name {
	case FormatName:
		return &printing.NamePrinter{W: s.Stdout}
	case FormatYAML, FormatJSON:
		return &printing.ManifestPrinter{W: s.Stdout, JSON: format.Name == FormatJSON, List: list}
	case formatJSONPath, formatJSONPathAsJSON, formatJSONPathFile, formatGoTemplate, formatGoTemplateFile:
		return &printing.TemplatePrinter{W: s.Stdout, Template: format.template, List: list}
	case formatColumns, formatColumnsFile:
		return &printing.ColumnsPrinter{Table: terminal.Table{W: s.Stdout}, Columns: format.columns, Headers: !f.NoHeaders}
	}
	consumers := s.Consumers()
	return &printing.TablePrinter{
		Finalizer: func(name string) string {
			if lifecycle.IsBuiltinFinalizer(name) {
				return name
			}
			return name + consumers.Finalizer(ctx, name).Note()
		},
		Table: terminal.Table{W: s.Stdout}, Ink: s.Ink(), OwnerKey: s.OwnerKey, Wide: format.Name == FormatWide, Namespace: f.Namespaces, Qualified: qualified || f.ShowKind, Headers: !f.NoHeaders,
		Labels: f.ShowLabels, LabelColumns: f.LabelColumns, Now: s.Clock,
	}
}
