package manifestfile

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// checkCharacters returns an error for characters that YAML does not allow, because the
// parser's error does not have their line.
func (t text) checkCharacters() error {
	at := Position{File: t.file, Line: t.before + 1}
	for i := 0; i < len(t.data); {
		c, size := utf8.DecodeRune(t.data[i:])
		switch {
		case c == '\n':
			at.Line++
		case c == utf8.RuneError && size == 1:
			return &SyntaxError{At: at, What: "invalid YAML: the text is not UTF-8"}
		case c == '\t', c == '\r', c == '\uFEFF', c == '\u0085':
		case unicode.Is(unicode.Cc, c):
			return &SyntaxError{At: at, What: fmt.Sprintf("invalid YAML: a control character (%U)", c)}
		}
		i += size
	}
	return nil
}

// blanks are characters that look like a space or like nothing, and that are text for YAML.
// Editors and web pages put them in the place of spaces.
var blanks = map[rune]string{
	'\u00a0': "NO-BREAK SPACE",
	'\u2007': "FIGURE SPACE",
	'\u200b': "ZERO WIDTH SPACE",
	'\u200c': "ZERO WIDTH NON-JOINER",
	'\u200d': "ZERO WIDTH JOINER",
	'\u202f': "NARROW NO-BREAK SPACE",
	'\u2060': "WORD JOINER",
	'\u3000': "IDEOGRAPHIC SPACE",
	'\ufeff': "ZERO WIDTH NO-BREAK SPACE",
}

// blankAt returns the name of the character that begins at an offset, if it is one of blanks.
func blankAt(s string, offset int) (name string, ok bool) {
	c, _ := utf8.DecodeRuneInString(s[offset:])
	if name, ok = blanks[c]; ok {
		name = fmt.Sprintf("%U %s", c, name)
	}
	return name, ok
}

// checkPlain returns an error if a text without quotes has one of blanks where a space is meant: at
// its beginning or end, after a colon, and, in the name of a member, anywhere.
func checkPlain(n *yaml.Node, isName bool) error {
	if n.Kind != yaml.ScalarNode || n.Style != 0 {
		return nil
	}
	for i, c := range n.Value {
		name, ok := blankAt(n.Value, i)
		if ok && (isName || i == 0 || i+utf8.RuneLen(c) == len(n.Value) || n.Value[i-1] == ':') {
			return &nodeError{n.Line, fmt.Sprintf("%s in column %d: write a space in its place, or the text in quotes",
				name, n.Column+utf8.RuneCountInString(n.Value[:i]))}
		}
	}
	return nil
}

// hint names the first of blanks in a text that cannot be read.
func (t text) hint() string {
	text := string(t.data)
	for i := range text {
		if name, ok := blankAt(text, i); ok {
			begin := strings.LastIndexByte(text[:i], '\n') + 1
			return fmt.Sprintf("; %s is in line %d, column %d", name, t.at(i).Line, utf8.RuneCountInString(text[begin:i])+1)
		}
	}
	return ""
}
