package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// printer writes objects in one of the formats of -o.
type printer interface {
	object(k client.Kind, o *coppicev1.Object) error
	// end writes what comes behind the last.
	end() error
}

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

// namePrinter writes keys.
type namePrinter struct{ w io.Writer }

func (p *namePrinter) object(k client.Kind, o *coppicev1.Object) error {
	_, err := fmt.Fprintln(p.w, console.Printable(key(k, o.GetMetadata().GetName())))
	return err
}

func (*namePrinter) end() error { return nil }

// manifestPrinter writes manifests: one alone as it is, several as a List, as
// kubectl does. A list is written while it is read.
type manifestPrinter struct {
	w    io.Writer
	json bool
	list bool
	n    int
}

func (p *manifestPrinter) object(_ client.Kind, o *coppicev1.Object) error {
	text, err := p.encode(o)
	if err != nil {
		return err
	}
	if p.list {
		switch {
		case p.n == 0 && p.json:
			text = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n" + text
		case p.n == 0:
			text = "apiVersion: v1\nitems:\n" + text
		case p.json:
			text = ",\n" + text
		}
	}
	if !p.list && !p.json && p.n > 0 {
		text = "---\n" + text
	}
	p.n++
	_, err = io.WriteString(p.w, text)
	return err
}

func (p *manifestPrinter) encode(o *coppicev1.Object) (string, error) {
	if !p.json {
		write := manifestfile.ToYAML
		if p.list {
			write = manifestfile.ToYAMLItem
		}
		b, err := write(o)
		return string(b), err
	}
	prefix, end := "", "\n"
	if p.list {
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

func (p *manifestPrinter) end() error {
	var text string
	switch {
	case !p.list:
	case p.json && p.n == 0:
		text = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
	case p.json:
		text = "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
	case p.n == 0:
		text = "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
	default:
		text = "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	}
	_, err := io.WriteString(p.w, text)
	return err
}

// tablePrinter writes a line for each object.
type tablePrinter struct {
	t         console.Table
	s         *session
	wide      bool
	namespace bool // a column for it
	qualified bool // names with the resource: there are several
	labels    bool // a column for them
	headers   bool
	now       func() time.Time
	begun     bool
}

func (p *tablePrinter) object(k client.Kind, o *coppicev1.Object) error {
	colour := p.s.ink().Green
	if m := o.GetMetadata(); m.GetDeletionTimestamp() != nil || m.GetInitializers() != nil {
		colour = p.s.ink().Yellow
	}
	return p.line(k, o, statusOf(o), colour)
}

// removed writes the line of an object that is no more.
func (p *tablePrinter) removed(k client.Kind, o *coppicev1.Object) error {
	return p.line(k, o, "Deleted", p.s.ink().Red)
}

func (p *tablePrinter) line(k client.Kind, o *coppicev1.Object, status string, colour func(string) string) error {
	if !p.begun && p.headers {
		if err := p.t.Text(p.columns("NAMESPACE", "NAME", "STATUS", "OWNERS", "AGE", "UID", "FINALIZERS", "REVISION", "LABELS")...); err != nil {
			return err
		}
	}
	p.begun = true
	m := o.GetMetadata()
	name := m.GetName()
	if p.qualified {
		name = key(k, name)
	}
	finalizers := "<none>"
	if len(m.GetFinalizers()) > 0 {
		finalizers = strings.Join(m.GetFinalizers(), ",")
	}
	created := "<unknown>"
	if m.GetCreationTimestamp() != nil {
		created = console.Age(p.now().Sub(m.GetCreationTimestamp().AsTime()))
	}
	var row []console.Cell
	for i, text := range p.columns(m.GetNamespace(), name, status, p.s.ownersOf(o), created, m.GetUid(), finalizers, fmt.Sprint(m.GetResourceVersion()), pairsText(m.GetLabels())) {
		c := console.Cell{Text: text}
		if at := i; p.namespace && at == 2 || !p.namespace && at == 1 {
			c.Colour = colour
		}
		row = append(row, c)
	}
	return p.t.Row(row...)
}

// columns returns those of all columns that are wanted.
func (p *tablePrinter) columns(all ...string) []string {
	labels := all[len(all)-1]
	all = all[:len(all)-1]
	if !p.wide {
		all = all[:len(all)-3]
	}
	if p.labels {
		all = append(all, labels)
	}
	if !p.namespace {
		all = all[1:]
	}
	return all
}

func (p *tablePrinter) end() error { return p.t.Flush() }

// statusOf says whether an object is being deleted, and what holds it; or for
// whom it waits before others see it.
func statusOf(o *coppicev1.Object) string {
	m := o.GetMetadata()
	switch in := m.GetInitializers(); {
	case isImplicit(o):
		return "Implicit"
	case m.GetDeletionTimestamp() != nil:
	case in != nil:
		return "Initializing (" + strings.Join(initializerNames(in), ", ") + ")"
	default:
		return "Active"
	}
	if len(m.GetFinalizers()) == 0 {
		return "Terminating"
	}
	return "Terminating (" + strings.Join(m.GetFinalizers(), ", ") + ")"
}

// ownersOf names the controller of an object, or its only owner, or counts its
// owners.
func (s *session) ownersOf(o *coppicev1.Object) string {
	owners := o.GetMetadata().GetOwnerReferences()
	c := client.ControllerOf(o)
	switch {
	case len(owners) == 0:
		return "<none>"
	case len(owners) == 1:
		return s.ownerKey(owners[0])
	case c == nil:
		return console.Count(len(owners), "owner")
	}
	return fmt.Sprintf("%s +%d", s.ownerKey(c), len(owners)-1)
}
