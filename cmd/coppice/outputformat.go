package main

import (
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

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

// templatePrinter executes a JSONPath template: on one object, or on a list of all.
type templatePrinter struct {
	*session
	template *jsonpath.Template
	list     bool
	items    []any
}

func (p *templatePrinter) object(_ client.Kind, o *coppicev1.Object) error {
	v, err := manifest.Generic(o)
	if err != nil {
		return err
	}
	if !p.list {
		return p.template.Execute(p.stdout, v)
	}
	p.items = append(p.items, v)
	return nil
}

func (p *templatePrinter) end() error {
	if !p.list {
		return nil
	}
	return p.template.Execute(p.stdout, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": p.items})
}

// columnsPrinter writes the columns that -o custom-columns describes.
type columnsPrinter struct {
	t       console.Table
	columns []jsonpath.Column
	headers bool
}

func (p *columnsPrinter) object(_ client.Kind, o *coppicev1.Object) error {
	v, err := manifest.Generic(o)
	if err != nil {
		return err
	}
	if err := p.header(); err != nil {
		return err
	}
	var row []string
	for _, c := range p.columns {
		row = append(row, c.Value(v))
	}
	return p.t.Text(row...)
}

// header writes the headers, once.
func (p *columnsPrinter) header() error {
	if !p.headers {
		return nil
	}
	p.headers = false
	var row []string
	for _, c := range p.columns {
		row = append(row, c.Header)
	}
	return p.t.Text(row...)
}

func (p *columnsPrinter) end() error {
	if err := p.header(); err != nil {
		return err
	}
	return p.t.Flush()
}

// sortedPrinter keeps all objects, and hands them on in the order of --sort-by.
type sortedPrinter struct {
	printer
	by   *jsonpath.Path
	rows []sortedRow
}

type sortedRow struct {
	kind   client.Kind
	object *coppicev1.Object
	values []any
}

func (p *sortedPrinter) object(k client.Kind, o *coppicev1.Object) error {
	v, err := manifest.Generic(o)
	if err != nil {
		return err
	}
	p.rows = append(p.rows, sortedRow{k, o, p.by.Select(v)})
	return nil
}

func (p *sortedPrinter) end() error {
	slices.SortStableFunc(p.rows, func(a, b sortedRow) int { return jsonpath.Compare(a.values, b.values) })
	for _, r := range p.rows {
		if err := p.printer.object(r.kind, r.object); err != nil {
			return err
		}
	}
	return p.printer.end()
}
