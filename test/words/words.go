package main

import (
	"strings"
	"unicode"
)

// word is a word of prose.
type word struct {
	// text is in lower case. A hyphenated word is one word.
	text string
	// parts are the words of which an identifier, a path or a flag consists.
	parts []string
	line  int
	// joined: only space separates it from the word before.
	joined bool
}

// tokenize splits prose into words. line is the number of its first line.
func tokenize(text string, line int) []word {
	var all []word
	code, joined := false, false
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case wordByte(c):
			end := i
			for end < len(text) && wordByte(text[end]) {
				end++
			}
			raw := text[i:end]
			i = end
			if trimmed := strings.Trim(raw, "-'_"); trimmed != "" {
				w := word{text: strings.ToLower(trimmed), line: line, joined: joined}
				if code || strings.HasPrefix(raw, "--") || !strings.Contains(trimmed, "-") {
					w.parts = split(trimmed)
				}
				all = append(all, w)
				joined = true
			}
			continue
		case c == '`':
			code = !code
			joined = false
		case c == '\n':
			line++
		case c == ' ' || c == '\t' || c == '\r':
		default:
			joined = false
		}
		i++
	}
	return all
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '\''
}

// split splits code into the words of its identifiers, in lower case: at capitals,
// and at everything that is not a letter.
func split(code string) []string {
	var words []string
	runes := []rune(code)
	start := -1
	end := func(i int) {
		if start >= 0 {
			words = append(words, strings.ToLower(string(runes[start:i])))
		}
		start = -1
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end(i) // the W of writerLease, or the L of HTTPLease
			start = i
		}
	}
	end(len(runes))
	return words
}
