package jsonpath

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	rfc "github.com/theory/jsonpath"
)

// Path selects values of a JSON document.
type Path struct {
	text  string
	steps []step
	root  bool // begins with $: at the document, also inside of a range
}

// step is a part of a path: a query, or several paths whose results are joined.
type step struct {
	query *rfc.Path
	union []*Path
}

// ParsePath reads a path as in custom columns and --sort-by: ".metadata.name",
// "metadata.name" and "{.metadata.name}" are the same.
func ParsePath(text string) (*Path, error) {
	inner := strings.TrimSpace(text)
	if s, ok := strings.CutPrefix(inner, "{"); ok {
		if inner, ok = strings.CutSuffix(s, "}"); !ok {
			return nil, fmt.Errorf("path %s: the closing } is missing", text)
		}
	}
	if inner == "" {
		return nil, errors.New("the path is empty: write a path such as .metadata.name")
	}
	if !strings.HasPrefix(inner, ".") && !strings.HasPrefix(inner, "[") && !strings.HasPrefix(inner, "$") && !strings.HasPrefix(inner, "@") {
		inner = "." + inner
	}
	return parsePath(inner)
}

// Select returns the values that the path selects, none if there are none.
func (p *Path) Select(document any) []any { return p.selectFrom(document, document) }

// selectFrom selects from the current value, or from the document if the path says so.
func (p *Path) selectFrom(document, current any) []any {
	values := []any{current}
	if p.root {
		values = []any{document}
	}
	for _, s := range p.steps {
		var next []any
		for _, v := range values {
			if s.query != nil {
				next = append(next, s.query.Select(v)...)
			}
			for _, u := range s.union {
				next = append(next, u.selectFrom(document, v)...)
			}
		}
		values = next
	}
	return values
}

func parsePath(text string) (*Path, error) {
	p := &Path{text: text}
	rest := text
	switch {
	case strings.HasPrefix(rest, "$"):
		p.root, rest = true, rest[1:]
	case strings.HasPrefix(rest, "@"):
		rest = rest[1:]
	}
	for rest != "" {
		s, after, err := parseStep(rest)
		if err != nil {
			return nil, fmt.Errorf("path %s: %w", text, err)
		}
		if s.query != nil || s.union != nil {
			p.steps = append(p.steps, s)
		}
		rest = after
	}
	return p, nil
}

// parseStep reads the first step of a path.
func parseStep(text string) (s step, rest string, err error) {
	switch {
	case text == ".": // the value itself, as in kubectl
		return s, "", nil
	case strings.HasPrefix(text, ".["):
		return parseStep(text[1:])
	case strings.HasPrefix(text, "["):
		inner, rest, err := bracketed(text)
		if err != nil {
			return s, "", err
		}
		s, err = parseBrackets(inner)
		return s, rest, err
	case strings.HasPrefix(text, ".."):
		name, rest := cutName(text[2:])
		if name == "" {
			return s, "", errors.New("no name follows the dots")
		}
		s.query, err = compile(".." + selector(name))
		return s, rest, err
	case strings.HasPrefix(text, "."):
		name, rest := cutName(text[1:])
		if name == "" {
			return s, "", fmt.Errorf("a name must follow . at %q", text)
		}
		s.query, err = compile(selector(name))
		return s, rest, err
	}
	return s, "", fmt.Errorf("%q is not understood: a step is .name, ['name'], [0], [0:2], [*], ..name or [?(@.name==\"value\")]", text)
}

// cutName cuts a name off a path: all up to the next dot or bracket. A backslash
// before a character makes it part of the name.
func cutName(text string) (name, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == '.' || c == '[':
			return b.String(), text[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// selector is a name in the syntax of RFC 9535.
func selector(name string) string {
	if name == "*" {
		return "[*]"
	}
	return "[" + quote(name) + "]"
}

// quote writes a string as RFC 9535 does, which is how JSON does.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// bracketed returns what is in the brackets that a path begins with.
func bracketed(text string) (inner, rest string, err error) {
	depth, quoted := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted != 0:
			switch c {
			case '\\':
				i++
			case quoted:
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 {
				return strings.TrimSpace(text[1:i]), text[i+1:], nil
			}
		}
	}
	return "", "", fmt.Errorf("the closing ] is missing in %q", text)
}

var sliceOf = regexp.MustCompile(`^(-?\d+)?(:(-?\d+)?(:(-?\d+)?)?)?$`)

func parseBrackets(inner string) (s step, err error) {
	switch {
	case inner == "":
		return s, errors.New("[] is empty: write [*] for all elements")
	case inner == "*" || sliceOf.MatchString(inner):
		s.query, err = compile("[" + inner + "]")
		return s, err
	case strings.HasPrefix(inner, "?"):
		f, err := translateFilter(inner)
		if err == nil {
			s.query, err = compile(f)
		}
		return s, err
	}
	parts := splitUnquoted(inner, ',')
	if len(parts) == 1 {
		name, ok := unquote(inner)
		if !ok {
			return s, fmt.Errorf("[%s] is not understood: write [0], [0:2], [*], ['name'] or [?(@.name==\"value\")]", inner)
		}
		// As in kubectl a quoted name is a path: a dot in it separates steps.
		p, err := parsePath("." + name)
		if err != nil {
			return s, err
		}
		s.union = []*Path{p}
		return s, nil
	}
	for _, part := range parts {
		p, err := parsePath("[" + strings.TrimSpace(part) + "]")
		if err != nil {
			return s, err
		}
		s.union = append(s.union, p)
	}
	return s, nil
}

// splitUnquoted splits at a separator outside of quotes.
func splitUnquoted(text string, at byte) (parts []string) {
	quoted, from := byte(0), 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted != 0:
			switch c {
			case '\\':
				i++
			case quoted:
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == at:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}

// unquote returns what is in single or double quotes.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return "", false
	}
	return s[1 : len(s)-1], true
}

var comparison = regexp.MustCompile(`^(.*?)(==|!=|<=|>=|=|<|>)(.*)$`)

// translateFilter translates ?(@.path op value), and ?(@.path), to RFC 9535.
func translateFilter(inner string) (string, error) {
	condition := strings.TrimSpace(inner[1:])
	if s, ok := strings.CutPrefix(condition, "("); ok && strings.HasSuffix(s, ")") {
		condition = strings.TrimSpace(strings.TrimSuffix(s, ")"))
	} else {
		return "", fmt.Errorf("[%s]: write a condition in parentheses: [?(@.name==\"value\")]", inner)
	}
	for _, unsupported := range []string{"&&", "||", "=~"} {
		if outsideQuotes(condition, unsupported) {
			return "", fmt.Errorf("[%s]: %s is not supported: a condition is one comparison", inner, unsupported)
		}
	}
	if m := comparison.FindStringSubmatch(condition); m != nil {
		left, err := operand(strings.TrimSpace(m[1]))
		if err != nil {
			return "", err
		}
		right, err := operand(strings.TrimSpace(m[3]))
		if err != nil {
			return "", err
		}
		op := m[2]
		if op == "=" {
			op = "=="
		}
		return "[?" + left + op + right + "]", nil
	}
	p, err := operand(condition)
	return "[?" + p + "]", err
}

func outsideQuotes(text, what string) bool {
	quoted := byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case strings.HasPrefix(text[i:], what):
			return true
		}
	}
	return false
}

// operand translates a side of a comparison: a path, a string, a number, true or false.
func operand(text string) (string, error) {
	if s, ok := unquote(text); ok {
		return quote(s), nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil || text == "true" || text == "false" || text == "null" {
		return text, nil
	}
	if !strings.HasPrefix(text, "@") && !strings.HasPrefix(text, "$") {
		return "", fmt.Errorf("%q in a condition is not understood: write @.name, a number, or a string in quotes", text)
	}
	var b strings.Builder
	b.WriteByte(text[0])
	for rest := text[1:]; rest != ""; {
		switch {
		case strings.HasPrefix(rest, ".["):
			rest = rest[1:]
		case strings.HasPrefix(rest, "["):
			inner, after, err := bracketed(rest)
			if err != nil {
				return "", err
			}
			if name, ok := unquote(inner); ok {
				inner = quote(name)
			}
			b.WriteString("[" + inner + "]")
			rest = after
		case strings.HasPrefix(rest, "."):
			var name string
			if name, rest = cutName(rest[1:]); name == "" {
				return "", fmt.Errorf("a name must follow . in %q", text)
			}
			b.WriteString(selector(name))
		default:
			return "", fmt.Errorf("%q in a condition is not understood", text)
		}
	}
	return b.String(), nil
}

func compile(fragment string) (*rfc.Path, error) {
	p, err := rfc.Parse("$" + fragment)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fragment, err)
	}
	return p, nil
}
