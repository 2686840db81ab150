package printing

import (
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/jsonpath"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Template is a template of -o: one of JSONPath, or of Go.
type Template interface {
	Execute(w io.Writer, document any) error
}

// TemplatePrinter executes a template: on one object, or on a list of all.
type TemplatePrinter struct {
	W        io.Writer
	Template Template
	List     bool
	items    []any
}

// Object implements Printer.
func (p *TemplatePrinter) Object(_ client.Kind, o *coppicev1.Object) error {
	v, err := jsonpath.Document(o)
	if err != nil {
		return err
	}
	if !p.List {
		return p.Template.Execute(p.W, v)
	}
	p.items = append(p.items, v)
	return nil
}

// End implements Printer.
func (p *TemplatePrinter) End() error {
	if !p.List {
		return nil
	}
	return p.Template.Execute(p.W, map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
		"items": append([]any{}, p.items...), // [] if there are none
	})
}

// ColumnsPrinter writes the columns that -o custom-columns describes.
type ColumnsPrinter struct {
	Table   terminal.Table
	Columns []jsonpath.Column
	Headers bool
}

// Object implements Printer.
func (p *ColumnsPrinter) Object(_ client.Kind, o *coppicev1.Object) error {
	v, err := jsonpath.Document(o)
	if err != nil {
		return err
	}
	if err := p.header(); err != nil {
		return err
	}
	var row []string
	for _, c := range p.Columns {
		text, err := c.Value(v)
		if err != nil {
			return err
		}
		row = append(row, text)
	}
	return p.Table.Text(row...)
}

// header writes the headers, once.
func (p *ColumnsPrinter) header() error {
	if !p.Headers {
		return nil
	}
	p.Headers = false
	var row []string
	for _, c := range p.Columns {
		row = append(row, c.Header)
	}
	return p.Table.Text(row...)
}

// End implements Printer.
func (p *ColumnsPrinter) End() error {
	if err := p.header(); err != nil {
		return err
	}
	return p.Table.Flush()
}

// SortedPrinter keeps all objects, and hands them on in the order of --sort-by: none if one of them
// has no place in it.
type SortedPrinter struct {
	Printer
	By     *jsonpath.Path
	rows   []sortedRow
	failed bool // Object has returned an error
}

type sortedRow struct {
	kind   client.Kind
	object *coppicev1.Object
	values []any
}

// Object implements Printer.
func (p *SortedPrinter) Object(k client.Kind, o *coppicev1.Object) error {
	v, err := jsonpath.Document(o)
	if err != nil {
		return err
	}
	values, err := p.By.Select(v)
	if err != nil {
		p.failed = true
		return fmt.Errorf("--sort-by: %w", err)
	}
	p.rows = append(p.rows, sortedRow{k, o, values})
	return nil
}

// End implements Printer.
func (p *SortedPrinter) End() error {
	if p.failed {
		return nil
	}
	if err := jsonpath.Sort(p.rows, func(r sortedRow) []any { return r.values }); err != nil {
		return fmt.Errorf("--sort-by=%s: %w", p.By, err)
	}
	for _, r := range p.rows {
		if err := p.Printer.Object(r.kind, r.object); err != nil {
			return err
		}
	}
	return p.Printer.End()
}
