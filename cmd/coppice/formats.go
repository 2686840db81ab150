package main

import (
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/jsonpath"
)

// The formats.
const (
	formatText  = "text"
	formatTable = "table"
	formatWide  = "wide"
	formatYAML  = "yaml"
	formatJSON  = "json"
	formatName  = "name"

	formatJSONPath = "jsonpath"
	formatColumns  = "custom-columns"
)

// What commands offer of them.
func getFormats() []string {
	return []string{formatTable, formatWide, formatYAML, formatJSON, formatName}
}
func textFormats() []string { return []string{formatText, formatJSON} }

func checkFormat(format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return wrong("-o %s is not known; there are %s", format, strings.Join(known, ", "))
}

// outputFormat is what -o says: a format, and what stands behind the equals sign.
type outputFormat struct {
	name     string
	template *jsonpath.Template
	columns  []jsonpath.Column
}

// parseOutput reads -o of get.
func parseOutput(text string) (outputFormat, error) {
	name, argument, has := strings.Cut(text, "=")
	f := outputFormat{name: name}
	var err error
	switch {
	case name == formatJSONPath && has:
		f.template, err = jsonpath.Parse(argument)
	case name == formatColumns && has:
		f.columns, err = jsonpath.ParseColumns(argument)
	case name == formatJSONPath:
		return f, wrong("-o jsonpath needs a template: -o jsonpath='{.metadata.name}'")
	case name == formatColumns:
		return f, wrong("-o custom-columns needs columns: -o custom-columns=NAME:.metadata.name")
	default:
		return f, checkFormat(text, append(getFormats(), formatJSONPath+"=TEMPLATE", formatColumns+"=COLUMNS")...)
	}
	if err != nil {
		return f, wrong("-o %w", err)
	}
	return f, nil
}

// isTable reports whether the format has a row for each object.
func (f outputFormat) isTable() bool { return f.name == formatTable || f.name == formatWide }
