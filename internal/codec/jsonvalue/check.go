package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxDepth is the maximum depth to which arrays and objects may be nested. Other parsers
// fail on values that are nested too deeply: encoding/json does at 10,000 levels.
const MaxDepth = 1000

// Errors of Check and Normalize. ErrSyntax is wrapped with a position.
var (
	ErrSyntax  = errors.New("must be JSON")
	ErrDepth   = fmt.Errorf("must not be nested more deeply than %d levels", MaxDepth)
	ErrNotUTF8 = errors.New("must be UTF-8")
)

// Check reports why raw is not an acceptable value, except for duplicate
// members, which Normalize removes.
func Check(raw []byte) error {
	s := newScanner(raw)
	defer s.release()
	return s.scan()
}

// Normalize returns raw without the members that a later member of the same
// object and name replaces, and the paths of these members, at most
// maxReported of them. It returns raw itself if there are none. The error is
// that of Check.
//
// The last one counts, as it does in encoding/json and in Kubernetes' API server.
func Normalize(raw []byte) (normal []byte, duplicates []string, err error) {
	s := newScanner(raw)
	defer s.release()
	if err := s.scan(); err != nil {
		return nil, nil, err
	}
	if len(s.replaced) == 0 {
		return raw, nil, nil
	}
	// A member that is replaced may itself have had such members.
	slices.SortFunc(s.replaced, func(a, b span) int { return a.start - b.start })
	normal = make([]byte, 0, len(raw))
	at := 0
	for _, r := range s.replaced {
		if r.end <= at {
			continue
		}
		normal = append(normal, raw[at:max(at, r.start)]...)
		at = r.end
	}
	return append(normal, raw[at:]...), s.duplicates, nil
}

// maxReported is of how many duplicates Normalize returns the path.
const maxReported = 10

// fewMembers is up to how many members of an object are compared one by one.
const fewMembers = 16

type span struct{ start, end int }

// member is a member of an object that is being scanned.
type member struct {
	name  []byte // unescaped
	start int    // of the name
}

// step is a step of the path to a value: a member, or an index.
type step struct {
	name  []byte
	index int
}

type scanner struct {
	raw      []byte
	at       int
	depth    int
	notASCII bool

	members    []member // of the objects that are being scanned, outermost first
	path       []step
	replaced   []span
	duplicates []string

	mostMembers, mostSteps int // that members and path have had
}

// scanners keep their slices: most values need none that are larger.
var scanners = sync.Pool{New: func() any { return &scanner{members: make([]member, 0, maxKept), path: make([]step, 0, maxKept)} }}

// maxKept is how many members and steps a scanner in the pool has room for.
const maxKept = 64

func newScanner(raw []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.raw = raw
	return s
}

func (s *scanner) release() {
	if cap(s.members) > maxKept || cap(s.path) > maxKept {
		return
	}
	clear(s.members[:s.mostMembers]) // their names are parts of raw
	clear(s.path[:s.mostSteps])
	*s = scanner{members: s.members[:0], path: s.path[:0]}
	scanners.Put(s)
}

func (s *scanner) scan() error {
	s.space()
	if err := s.value(); err != nil {
		return err
	}
	s.space()
	if s.at < len(s.raw) {
		return s.syntax()
	}
	if s.notASCII && !utf8.Valid(s.raw) {
		return ErrNotUTF8
	}
	return nil
}

func (s *scanner) syntax() error {
	if s.at >= len(s.raw) {
		return fmt.Errorf("%w: it ends in the middle of a value", ErrSyntax)
	}
	return fmt.Errorf("%w: unexpected %q at byte %d", ErrSyntax, s.raw[s.at], s.at)
}

func (s *scanner) space() {
	for s.at < len(s.raw) && s.raw[s.at] <= ' ' && isSpace(s.raw[s.at]) {
		s.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// next skips space and takes c if it follows.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.raw) && s.raw[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) value() error {
	if s.at >= len(s.raw) {
		return s.syntax()
	}
	switch c := s.raw[s.at]; {
	case c == '"':
		_, err := s.text()
		return err
	case c == '{' || c == '[':
		if s.depth == MaxDepth {
			return ErrDepth
		}
		s.depth++
		err := s.container(c)
		s.depth--
		return err
	case c == '-' || isDigit(c):
		return s.number()
	}
	for _, word := range words {
		if rest := s.raw[s.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			s.at += len(word)
			return nil
		}
	}
	return s.syntax()
}

var words = [...]string{"true", "false", "null"}

func (s *scanner) container(open byte) error {
	s.at++
	if open == '{' {
		return s.object()
	}
	return s.array()
}

func (s *scanner) array() error {
	if s.next(']') {
		return nil
	}
	for i := 0; ; i++ {
		s.space()
		if err := s.within(step{index: i}); err != nil {
			return err
		}
		if s.next(']') {
			return nil
		}
		if !s.next(',') {
			return s.syntax()
		}
	}
}

// within scans the value at a step of the path, which only containers need.
func (s *scanner) within(at step) error {
	if s.at < len(s.raw) && s.raw[s.at] != '{' && s.raw[s.at] != '[' {
		return s.value()
	}
	s.path = append(s.path, at)
	s.mostSteps = max(s.mostSteps, len(s.path))
	err := s.value()
	s.path = s.path[:len(s.path)-1]
	return err
}

func (s *scanner) object() error {
	if s.next('}') {
		return nil
	}
	first := len(s.members)
	var index map[string]int // once there are many
	for {
		s.space()
		m := member{start: s.at}
		var err error
		if m.name, err = s.name(); err != nil {
			return err
		}
		if was := s.find(first, m.name, &index); was >= 0 {
			s.replace(was, m)
		}
		s.members = append(s.members, m)
		s.mostMembers = max(s.mostMembers, len(s.members))
		if index != nil {
			index[string(m.name)] = len(s.members) - 1
		}
		if !s.next(':') {
			return s.syntax()
		}
		s.space()
		if err := s.within(step{name: m.name, index: -1}); err != nil {
			return err
		}
		if s.next('}') {
			s.members = s.members[:first]
			return nil
		}
		if !s.next(',') {
			return s.syntax()
		}
	}
}

// find returns the last member of that name of the object whose members begin
// at first, or -1.
func (s *scanner) find(first int, name []byte, index *map[string]int) int {
	members := s.members[first:]
	if len(members) <= fewMembers {
		for i := len(members) - 1; i >= 0; i-- {
			if bytes.Equal(members[i].name, name) {
				return first + i
			}
		}
		return -1
	}
	if *index == nil {
		*index = make(map[string]int, 4*fewMembers)
		for i, m := range members {
			(*index)[string(m.name)] = first + i
		}
	}
	if i, ok := (*index)[string(name)]; ok {
		return i
	}
	return -1
}

// replace notes that a member is replaced by m, which is scanned now: from its
// name to that of the member behind it.
func (s *scanner) replace(was int, m member) {
	end := m.start
	if was+1 < len(s.members) {
		end = s.members[was+1].start
	}
	s.replaced = append(s.replaced, span{s.members[was].start, end})
	if len(s.duplicates) < maxReported {
		s.duplicates = append(s.duplicates, pathOf(append(slices.Clone(s.path), step{name: m.name, index: -1})))
	}
}

// maxPath bounds the length of a path in a warning, in bytes.
const maxPath = 256

func pathOf(steps []step) string {
	var b strings.Builder
	for _, at := range steps {
		if b.Len() > maxPath {
			return strings.ToValidUTF8(b.String()[:maxPath], "") + "..."
		}
		switch {
		case at.index >= 0:
			fmt.Fprintf(&b, "[%d]", at.index)
		case b.Len() > 0:
			b.WriteByte('.')
			fallthrough
		default:
			b.Write(at.name[:min(len(at.name), maxPath)])
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// name scans the name of a member, and returns it without its escapes.
func (s *scanner) name() ([]byte, error) {
	start := s.at
	escaped, err := s.text()
	if err != nil {
		return nil, err
	}
	if !escaped {
		return s.raw[start+1 : s.at-1], nil
	}
	var plain string
	if err := json.Unmarshal(s.raw[start:s.at], &plain); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return []byte(plain), nil
}

// text scans a string, and reports whether there are escapes in it.
func (s *scanner) text() (escaped bool, err error) {
	if s.at >= len(s.raw) || s.raw[s.at] != '"' {
		return false, s.syntax()
	}
	s.at++
	for {
		raw, at := s.raw, s.at
		for at < len(raw) && plain[raw[at]] {
			at++
		}
		s.at = at
		if at == len(raw) {
			return false, s.syntax()
		}
		switch c := raw[at]; {
		case c == '"':
			s.at++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return true, err
			}
		case c < ' ':
			return false, s.syntax()
		default:
			s.notASCII = true
			s.at++
		}
	}
}

// plain are the bytes that text goes on with, as it is and in ASCII.
var plain = func() (of [256]bool) {
	for c := range of {
		of[c] = c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
	}
	return of
}()

func (s *scanner) escape() error {
	s.at++
	if s.at >= len(s.raw) {
		return s.syntax()
	}
	switch s.raw[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
		if s.at+5 <= len(s.raw) {
			if _, err := strconv.ParseUint(string(s.raw[s.at+1:s.at+5]), 16, 16); err == nil {
				s.at += 5
				return nil
			}
		}
	}
	return s.syntax()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.raw) && isDigit(s.raw[s.at]) {
		s.at++
	}
	return s.at > start
}

func (s *scanner) number() error {
	if s.raw[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.raw) && s.raw[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return s.syntax()
	}
	if s.at < len(s.raw) && s.raw[s.at] == '.' {
		s.at++
		if !s.digits() {
			return s.syntax()
		}
	}
	if s.at < len(s.raw) && (s.raw[s.at] == 'e' || s.raw[s.at] == 'E') {
		s.at++
		if s.at < len(s.raw) && (s.raw[s.at] == '+' || s.raw[s.at] == '-') {
			s.at++
		}
		if !s.digits() {
			return s.syntax()
		}
	}
	return nil
}
