package printing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Printer writes objects in one of the formats of -o.
type Printer interface {
	Object(k client.Kind, o *coppicev1.Object) error
	// End writes the text after the last object.
	End() error
}

// NamePrinter writes keys.
type NamePrinter struct{ W io.Writer }

// Object implements Printer.
func (p *NamePrinter) Object(k client.Kind, o *coppicev1.Object) error {
	_, err := fmt.Fprintln(p.W, terminal.Printable(Key(k, o.GetMetadata().GetName())))
	return err
}

// End implements Printer.
func (*NamePrinter) End() error { return nil }

// ManifestPrinter writes manifests: one alone as it is, several as a List, as
// kubectl does. A list is written while it is read.
type ManifestPrinter struct {
	W    io.Writer
	JSON bool
	List bool
	n    int
}

// Object implements Printer.
func (p *ManifestPrinter) Object(_ client.Kind, o *coppicev1.Object) error {
	text, err := p.encode(o)
	if err != nil {
		return err
	}
	if p.List {
		switch {
		case p.n == 0 && p.JSON:
			text = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n" + text
		case p.n == 0:
			text = "apiVersion: v1\nitems:\n" + text
		case p.JSON:
			text = ",\n" + text
		}
	}
	if !p.List && !p.JSON && p.n > 0 {
		text = "---\n" + text
	}
	p.n++
	_, err = io.WriteString(p.W, text)
	return err
}

func (p *ManifestPrinter) encode(o *coppicev1.Object) (string, error) {
	if !p.JSON {
		write := manifestfile.ToYAML
		if p.List {
			write = manifestfile.ToYAMLItem
		}
		b, err := write(o)
		return string(b), err
	}
	prefix, end := "", "\n"
	if p.List {
		prefix, end = "        ", ""
	}
	b, err := jsonOf(o, prefix, "    ")
	return prefix + b + end, err
}

// jsonOf is the manifest of an object, members ordered by name; on one line
// without an indent.
func jsonOf(o *coppicev1.Object, prefix, indent string) (string, error) {
	v, err := manifest.Generic(o)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, indent)
	err = e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// End implements Printer.
func (p *ManifestPrinter) End() error {
	var text string
	switch {
	case !p.List:
	case p.JSON && p.n == 0:
		text = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
	case p.JSON:
		text = "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
	case p.n == 0:
		text = "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
	default:
		text = "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	}
	_, err := io.WriteString(p.W, text)
	return err
}

// TablePrinter writes a line for each object.
type TablePrinter struct {
	Table     terminal.Table
	Ink       terminal.Ink
	OwnerKey  func(*coppicev1.OwnerReference) string
	Wide      bool
	Namespace bool // a column for it
	Qualified bool // names with the resource: there are several
	Labels    bool // a column for them
	// LabelColumns are the labels that have columns of their own.
	LabelColumns []string
	Headers      bool
	Now          func() time.Time
	// Finalizer names a finalizer that blocks an object, with a remark about its controller, if
	// Wide is set; nil for the name alone.
	Finalizer func(name string) string
	begun     bool
}

// Object implements Printer.
func (p *TablePrinter) Object(k client.Kind, o *coppicev1.Object) error {
	colour := p.Ink.Green
	if m := o.GetMetadata(); m.GetDeletionTimestamp() != nil || m.GetInitializers() != nil {
		colour = p.Ink.Yellow
	}
	status := StatusOf(o)
	if p.Wide && p.Finalizer != nil {
		status = statusOf(o, p.Finalizer)
	}
	if expiry := Expiry(o.GetMetadata(), p.Now()); expiry != "" && p.Wide {
		status += ", " + expiry
	}
	if by := ProtectedBy(o.GetMetadata().GetProtection()); by != "" && p.Wide {
		status += " (" + by + ")"
	}
	return p.line(k, o, status, colour)
}

// Removed writes the line of an object that was removed.
func (p *TablePrinter) Removed(k client.Kind, o *coppicev1.Object) error {
	return p.line(k, o, "Deleted", p.Ink.Red)
}

func (p *TablePrinter) line(k client.Kind, o *coppicev1.Object, status string, colour func(string) string) error {
	if !p.begun && p.Headers {
		var labels []string
		for _, name := range p.LabelColumns {
			labels = append(labels, strings.ToUpper(name[strings.LastIndexByte(name, '/')+1:]))
		}
		if err := p.Table.Text(p.columns(labels, "NAMESPACE", "NAME", "STATUS", "OWNERS", "AGE", "UID", "FINALIZERS", "REVISION", "LABELS")...); err != nil {
			return err
		}
	}
	p.begun = true
	m := o.GetMetadata()
	name := m.GetName()
	if p.Qualified {
		name = Key(k, name)
	}
	finalizers := "<none>"
	if len(m.GetFinalizers()) > 0 {
		list := m.GetFinalizers()
		finalizers = strings.Join(list[:min(len(list), terminal.Listed)], ",")
		if more := len(list) - terminal.Listed; more > 0 {
			finalizers += fmt.Sprintf(",+%d", more)
		}
	}
	created := "<unknown>"
	if m.GetCreationTimestamp() != nil {
		created = terminal.Age(p.Now().Sub(m.GetCreationTimestamp().AsTime()))
	}
	var labels []string
	for _, name := range p.LabelColumns {
		labels = append(labels, m.GetLabels()[name])
	}
	var row []terminal.Cell
	for i, text := range p.columns(labels, m.GetNamespace(), name, status, ownersOf(o, p.OwnerKey), created, m.GetUid(), finalizers, fmt.Sprint(m.GetResourceVersion()), PairsText(m.GetLabels())) {
		c := terminal.Cell{Text: text}
		if at := i; p.Namespace && at == 2 || !p.Namespace && at == 1 {
			c.Colour = colour
		}
		row = append(row, c)
	}
	return p.Table.Row(row...)
}

// columns returns those of all columns that are wanted, with the columns of labels before that of all labels.
func (p *TablePrinter) columns(ofLabels []string, all ...string) []string {
	labels := all[len(all)-1]
	all = all[:len(all)-1]
	if !p.Wide {
		all = all[:len(all)-3]
	}
	all = append(all, ofLabels...)
	if p.Labels {
		all = append(all, labels)
	}
	if !p.Namespace {
		all = all[1:]
	}
	return all
}

// End implements Printer.
func (p *TablePrinter) End() error { return p.Table.Flush() }
