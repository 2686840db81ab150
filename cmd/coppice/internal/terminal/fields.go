package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Fields writes what is known of one object: fields with a value each, and sections with
// lines. It ignores errors: what it writes is for a person, and a reader that has closed
// the output needs no error.
type Fields struct{ W io.Writer }

// Field writes a field.
func (f Fields) Field(name, value string) {
	_, _ = fmt.Fprintf(f.W, "%-13s%s\n", name+":", Printable(value))
}

// List writes the values of a field one below the other.
func (f Fields) List(name string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	for i, v := range values {
		if i > 0 {
			_, _ = fmt.Fprintf(f.W, "%-13s%s\n", "", Printable(v))
			continue
		}
		f.Field(name, v)
	}
}

// Section writes rows as a table below a heading.
func (f Fields) Section(name string, rows [][]string) {
	if len(rows) == 0 {
		f.Field(name, "<none>")
		return
	}
	_, _ = fmt.Fprintf(f.W, "%s:\n", name)
	t := Table{W: f.W}
	for _, row := range rows {
		row[0] = "  " + row[0]
		_ = t.Text(row...)
	}
	_ = t.Flush()
}

// Camel returns a protobuf enum value without its prefix in camel case:
// Camel("REASON_OWNER_ABSENT", "REASON_") is "OwnerAbsent".
func Camel(value, prefix string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.TrimPrefix(value, prefix), "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return b.String()
}
