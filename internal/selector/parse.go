package selector

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/internal/labelname"
)

// Parse reads a selector. An empty one matches all, and a blank one is refused: Kubernetes takes it
// for an empty one. The error quotes the selector and what is wrong with it.
func Parse(text string) (Selector, error) {
	if Blank(text) {
		return nil, fmt.Errorf("label selector %q: it has only blanks, which would select all objects: write a selector such as app=web, or leave it out", shortened(text))
	}
	p := parser{rest: text}
	s, err := p.selector()
	if err != nil {
		return nil, fmt.Errorf("label selector %q: %w", shortened(text), err)
	}
	return s, nil
}

// Blank reports whether a selector has characters, and all of them are blanks.
func Blank(text string) bool { return text != "" && strings.Trim(text, space) == "" }

// shortened bounds what an error quotes.
func shortened(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}

// token is a part of a selector. Words are keys, values, and the operators in and
// notin; everything else is the sign itself.
type token struct {
	sign string // empty for a word, end for the end
	text string
}

const end = "end of selector"

func (t token) String() string {
	if t.sign == end {
		return "the " + end
	}
	return fmt.Sprintf("%q", shortened(t.text))
}

type parser struct {
	rest string
}

// signs are the tokens that are not words. Those that another begins with come
// behind it.
var signs = []string{"==", "!=", "=", "!", "(", ")", ",", ">", "<"}

const space = " \t\r\n"

// next takes the next token.
func (p *parser) next() token {
	p.rest = strings.TrimLeft(p.rest, space)
	if p.rest == "" {
		return token{sign: end}
	}
	for _, s := range signs {
		if rest, ok := strings.CutPrefix(p.rest, s); ok {
			p.rest = rest
			return token{sign: s, text: s}
		}
	}
	word := p.rest
	if i := strings.IndexAny(p.rest, space+"=!(),<>"); i >= 0 {
		word = p.rest[:i]
	}
	p.rest = p.rest[len(word):]
	return token{text: word}
}

// peek returns the next token, and leaves it.
func (p *parser) peek() token {
	before := p.rest
	t := p.next()
	p.rest = before
	return t
}

func (p *parser) selector() (Selector, error) {
	if p.peek().sign == end {
		return nil, nil
	}
	var s Selector
	for {
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		s = append(s, r)
		switch t := p.next(); t.sign {
		case end:
			return s, nil
		case ",":
		default:
			return nil, fmt.Errorf("found %s, expected ',' or the %s", t, end)
		}
	}
}

// requirement reads: ["!"] key | key operator values.
func (p *parser) requirement() (r requirement, err error) {
	t := p.next()
	negated := t.sign == "!"
	if negated {
		t = p.next()
	}
	if t.sign != "" {
		return r, fmt.Errorf("found %s, expected the key of a label", t)
	}
	key := t.text
	if why := labelname.QualifiedName(key); why != "" {
		return r, fmt.Errorf("%q is not the key of a label: %s", shortened(key), why)
	}
	if negated {
		return require(key, absent, nil)
	}
	if after := p.peek().sign; after == end || after == "," {
		return require(key, exists, nil)
	}
	t = p.next()
	var op operator
	switch {
	case t.sign == "=", t.sign == "==", t.sign == "" && t.text == "in":
		op = in
	case t.sign == "!=", t.sign == "" && t.text == "notin":
		op = notIn
	case t.sign == ">":
		op = above
	case t.sign == "<":
		op = below
	default:
		return r, fmt.Errorf("found %s, expected one of '=', '==', '!=', '>', '<', 'in', 'notin'", t)
	}
	read := p.value
	if t.sign == "" {
		read = p.list
	}
	values, err := read()
	if err != nil {
		return r, err
	}
	return require(key, op, values)
}

// value reads one value, which may be nothing.
func (p *parser) value() ([]string, error) {
	if after := p.peek().sign; after == end || after == "," {
		return []string{""}, nil
	}
	t := p.next()
	if t.sign != "" {
		return nil, fmt.Errorf("found %s, expected the value of a label", t)
	}
	return []string{t.text}, nil
}

// list reads values in parentheses. Each may be nothing.
func (p *parser) list() ([]string, error) {
	if t := p.next(); t.sign != "(" {
		return nil, fmt.Errorf("found %s, expected '('", t)
	}
	var values []string
	word, said := "", false // since the last comma
	for {
		switch t := p.next(); {
		case t.sign == "" && !said:
			word, said = t.text, true
		case t.sign == ",":
			values = append(values, word)
			word, said = "", false
		case t.sign == ")":
			return append(values, word), nil
		default:
			return nil, fmt.Errorf("found %s, expected a value, ',' or ')'", t)
		}
	}
}
