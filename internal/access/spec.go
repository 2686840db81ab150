package access

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// RuleForm is the form of a rule in one line.
const RuleForm = "VERBS: KINDS [@ NAMESPACES] [in REALMS], such as 'get,list,watch: deployments.apps,configmaps @ shop'"

// ParseRule parses a rule in one line. What it leaves out is the user's: see User.
func ParseRule(text string) (Rule, error) {
	verbs, rest, ok := strings.Cut(text, ":")
	if !ok {
		return Rule{}, fmt.Errorf("%q is not a rule: write %s", text, RuleForm)
	}
	var r Rule
	if i := slices.Index(strings.Fields(rest), "in"); i >= 0 {
		words := strings.Fields(rest)
		rest, r.Realms = strings.Join(words[:i], " "), list(strings.Join(words[i+1:], " "))
		if len(r.Realms) == 0 {
			return Rule{}, fmt.Errorf("%q names no realm behind in: write %s", text, RuleForm)
		}
	}
	kinds, namespaces, scoped := strings.Cut(rest, "@")
	r.Verbs, r.Kinds, r.Namespaces = list(verbs), list(kinds), list(namespaces)
	if len(r.Verbs) == 0 || len(r.Kinds) == 0 || scoped && len(r.Namespaces) == 0 {
		return Rule{}, fmt.Errorf("%q is not a rule: write %s", text, RuleForm)
	}
	return r, nil
}

// list splits at commas.
func list(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// String is the inverse of ParseRule for a rule that has kinds.
func (r *Rule) String() string {
	s := strings.Join(r.Verbs, ",") + ": " + strings.Join(or(r.Kinds, nil), ",")
	if len(r.Namespaces) > 0 {
		s += " @ " + strings.Join(r.Namespaces, ",")
	}
	if len(r.Realms) > 0 {
		s += " in " + strings.Join(r.Realms, ",")
	}
	return s
}

// Write writes the file as YAML.
func (f *File) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(f), e.Close())
}

// Single returns the file of one user with these rules. The namespaces for which patterns stand are none.
func Single(user string, may []Rule) (*File, error) {
	f := &File{Version: FileVersion, Users: map[string]*User{user: {May: may}}}
	return f, f.check()
}
