package main

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
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// The formats.
const (
	formatText  = "text"
	formatTable = "table"
	formatWide  = "wide"
	formatYAML  = "yaml"
	formatJSON  = "json"
	formatName  = "name"

	formatJSONPath       = "jsonpath"
	formatJSONPathAsJSON = "jsonpath-as-json"
	formatJSONPathFile   = "jsonpath-file"
	formatGoTemplate     = "go-template"
	formatGoTemplateFile = "go-template-file"
	formatColumns        = "custom-columns"
	formatColumnsFile    = "custom-columns-file"
)

// What commands offer of them.
func getFormats() []string {
	return []string{formatTable, formatWide, formatYAML, formatJSON, formatName}
}
func textFormats() []string { return []string{formatText, formatJSON} }

// resultFormats are those in which commands print the objects that they have written.
func resultFormats() []string { return []string{formatText, formatName, formatYAML, formatJSON} }

func checkFormat(format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return wrong("-o %s is not known; there are %s", format, strings.Join(known, ", "))
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

// outputFormat is what -o says. template or columns is set for the formats with an
// argument.
type outputFormat struct {
	name     string
	template printing.Template
	columns  []jsonpath.Column
}

// parseOutput reads -o, which has one of the formats that are known, or one with an argument.
func parseOutput(text string, known ...string) (f outputFormat, err error) {
	name, argument, _ := strings.Cut(text, "=")
	f.name = name
	what, takes := argumentOf[name]
	switch {
	case !takes:
		for _, name := range slices.Sorted(maps.Keys(argumentOf)) {
			known = append(known, name+"="+argumentOf[name])
		}
		return f, checkFormat(text, known...)
	case argument == "":
		return f, wrong("-o %s is incomplete: write -o %s=%s", name, name, what)
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
		return f, wrong("-o %w", err)
	}
	return f, nil
}

// isTable reports whether the format has a row for each object.
func (f outputFormat) isTable() bool { return f.name == formatTable || f.name == formatWide }

// resultFlag is -o of commands that write objects.
func resultFlag(c *cobra.Command, into *string) {
	c.Flags().StringVarP(into, "output", "o", formatText, "what is printed of the objects: text, name, yaml, json, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,...")
	completeFlag(c, "output", resultFormats()...)
}

// results returns the printer of an output that resultFlag has read; nil for text, of which the command prints
// a line for each object. With list the printer makes one document of several objects.
func (s *session) results(ctx context.Context, output string, list bool) (printing.Printer, error) {
	if output == "" || output == formatText {
		return nil, nil
	}
	format, err := parseOutput(output, resultFormats()...)
	if err != nil {
		return nil, err
	}
	return s.printer(ctx, tableFlags{}, format, false, list), nil
}

// printResult prints an object of a reply, as get prints it.
func printResult(p printing.Printer, k client.Kind, o *client.Object) error {
	o.GetMetadata().Applied = nil
	return p.Object(k, o)
}

// tableFlags say what a table of objects shows.
type tableFlags struct {
	showLabels   bool
	labelColumns []string
	showKind     bool
	noHeaders    bool
	namespaces   bool // a column with the namespaces
}

// printer returns the printer of a format. With qualified a table has the types of objects before their names; with list
// the printer makes one document of several objects.
func (s *session) printer(ctx context.Context, f tableFlags, format outputFormat, qualified, list bool) printing.Printer {
	switch format.name {
	case formatName:
		return &printing.NamePrinter{W: s.stdout}
	case formatYAML, formatJSON:
		return &printing.ManifestPrinter{W: s.stdout, JSON: format.name == formatJSON, List: list}
	case formatJSONPath, formatJSONPathAsJSON, formatJSONPathFile, formatGoTemplate, formatGoTemplateFile:
		return &printing.TemplatePrinter{W: s.stdout, Template: format.template, List: list}
	case formatColumns, formatColumnsFile:
		return &printing.ColumnsPrinter{Table: console.Table{W: s.stdout}, Columns: format.columns, Headers: !f.noHeaders}
	}
	consumers := s.Consumers()
	return &printing.TablePrinter{
		Finalizer: func(name string) string {
			if lifecycle.IsBuiltinFinalizer(name) {
				return name
			}
			return name + consumers.Finalizer(ctx, name).Note()
		},
		Table: console.Table{W: s.stdout}, Ink: s.ink(), OwnerKey: s.OwnerKey, Wide: format.name == formatWide, Namespace: f.namespaces, Qualified: qualified || f.showKind, Headers: !f.noHeaders,
		Labels: f.showLabels, LabelColumns: f.labelColumns, Now: s.now,
	}
}
