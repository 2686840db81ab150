package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// FileVersion is the version of the format of users files.
const FileVersion = 1

// MaxFileBytes is the maximum size of a users file in bytes.
const MaxFileBytes = 8 << 20

// File is a users file.
type File struct {
	// Version is FileVersion.
	Version int `yaml:"version"`
	// Namespaces are those for which a pattern such as team-* stands in the permissions of NATS, which has no
	// such patterns.
	Namespaces []string `yaml:"namespaces,omitempty"`
	// Roles are roles in addition to the built-in ones.
	Roles map[string][]Rule `yaml:"roles,omitempty"`
	// Users are the users by name. The name is the actor in the object API.
	Users map[string]*User `yaml:"users"`
}

// User is a user and what it may do.
type User struct {
	// About describes the user.
	About string `yaml:"about,omitempty"`
	// Password says where the password is. Without a credential it is as in a configuration without a users file.
	Password *Password `yaml:"password,omitempty"`
	// NKey is the user's public nkey, instead of a password.
	NKey string `yaml:"nkey,omitempty"`
	// Roles are the names of roles.
	Roles []string `yaml:"roles,omitempty"`
	// Kinds, Namespaces and Realms are those of the rules that name none: of roles, and of May. Empty for all.
	Kinds      []string `yaml:"kinds,omitempty"`
	Namespaces []string `yaml:"namespaces,omitempty"`
	Realms     []string `yaml:"realms,omitempty"`
	// May are rules in addition to those of the roles.
	May []Rule `yaml:"may,omitempty"`
	// Finalizers are the external finalizers that the user's programs run, Agents the kinds of which they are
	// agents, and Notices the names by which expiry policies call them.
	Finalizers []string `yaml:"finalizers,omitempty"`
	Agents     []string `yaml:"agents,omitempty"`
	Notices    []string `yaml:"notices,omitempty"`
}

// Password says where a password is: one of its fields is set.
type Password struct {
	// Variable is a variable of NATS' configuration, or of the environment of its server.
	Variable string `yaml:"variable,omitempty"`
	// Hash is the bcrypt hash of the password, as 'nats server passwd' prints it.
	Hash string `yaml:"hash,omitempty"`
}

// Rule allows verbs about objects of kinds in namespaces of realms.
type Rule struct {
	// Verbs are verbs of the object API, or names that stand for several: see Verbs.
	Verbs []string `yaml:"verbs"`
	// Kinds are plurals with their group, such as deployments.apps; *.example.com for all kinds of the group, or
	// * for all kinds. Verbs that write need the kinds of the group coppice.dev by name.
	Kinds []string `yaml:"kinds,omitempty"`
	// Namespaces are names, patterns such as team-*, Cluster for objects without a namespace, or * for all of these.
	Namespaces []string `yaml:"namespaces,omitempty"`
	// Realms are names, or * for all.
	Realms []string `yaml:"realms,omitempty"`

	exact bool // the verbs stand for themselves
}

// All stands for all kinds, namespaces, realms or verbs.
const All = "*"

// Cluster stands for no namespace: objects of cluster-scoped kinds.
const Cluster = "_"

// Parse reads a users file, in YAML or JSON. name is that of the file, for errors, of which it returns all.
func Parse(name string, data []byte) (*File, error) {
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("%s: it has %d bytes, and a users file at most %d", name, len(data), MaxFileBytes)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := checkDocument(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var f File
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it is empty; a users file begins with 'version: %d'", name, FileVersion)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it has several documents; a users file has one", name)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &f, nil
}

// checkDocument refuses what is easily misread: anchors, and lists without elements, which could mean nothing or everything.
func checkDocument(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Tag == "!!merge" {
		return fmt.Errorf("line %d: a users file has no anchors, aliases or merge keys: write the rules out, or name a role", n.Line)
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			empty := c.Kind == yaml.SequenceNode && len(c.Content) == 0 || c.Tag == "!!null"
			if key := n.Content[i-1].Value; empty && slices.Contains(listFields, key) {
				return fmt.Errorf("line %d: %s: it is empty; leave it out for what the user has, or write [%q] for all", n.Content[i-1].Line, key, All)
			}
		}
		if err := checkDocument(c); err != nil {
			return err
		}
	}
	return nil
}

// listFields are the fields of which an empty list would not say what it means.
var listFields = []string{"kinds", "namespaces", "realms", "roles", "may", "finalizers", "agents", "notices"}

// check returns all that is wrong.
func (f *File) check() error {
	if f.Version != FileVersion {
		return fmt.Errorf("version: %d is not a version of users files that this program knows; write 'version: %d'", f.Version, FileVersion)
	}
	var all []error
	add := func(where string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", where, err))
		}
	}
	for i, ns := range f.Namespaces {
		add(fmt.Sprintf("namespaces[%d]", i), checkNamespaceName(ns))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Roles)) {
		where := "roles." + name
		if _, taken := builtinRoles[name]; taken {
			add(where, errors.New("a built-in role has this name: choose another"))
		}
		for i := range f.Roles[name] {
			add(fmt.Sprintf("%s[%d]", where, i), f.checkRule(&f.Roles[name][i]))
		}
	}
	if len(f.Users) == 0 {
		all = append(all, errors.New("users: it is empty; name at least one user"))
	}
	alike := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Users)) {
		where := "users." + name
		add(where, checkUserName(name))
		key := strings.ToUpper(strings.ReplaceAll(name, "_", "-"))
		if other, taken := alike[key]; taken {
			add(where, fmt.Errorf("the name is too much like %s: each user has a password variable of its own, without case, hyphens and underscores", other))
		}
		alike[key] = name
		if f.Users[name] == nil {
			add(where, errors.New("it is empty: give the user roles or rules (may)"))
			continue
		}
		for _, err := range f.checkUser(f.Users[name]) {
			add(where, err)
		}
	}
	return errors.Join(all...)
}

// reservedUsers are names that users files cannot have: those of Coppice's services, and of users with other rights.
var reservedUsers = []string{
	bus.RoleGraph, bus.RoleAnswers, bus.RoleProcessor, bus.RoleScanner, bus.RoleFinalizers, bus.RoleAdmin, bus.LocalUser, bus.CoreAccount,
}

func checkUserName(name string) error {
	if err := bus.CheckActor(name); err != nil {
		return err
	}
	if slices.Contains(reservedUsers, name) {
		return fmt.Errorf("%q is the name of a service of Coppice, or of a user with its own rights: choose another", name)
	}
	return nil
}

// checkUser returns what is wrong with a user.
func (f *File) checkUser(u *User) (all []error) {
	add := func(where string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", where, err))
		}
	}
	if p := u.Password; p != nil {
		switch {
		case (p.Variable == "") == (p.Hash == ""):
			add("password", errors.New("write either variable or hash"))
		case p.Variable != "" && !isVariable(p.Variable):
			add("password.variable", fmt.Errorf("%q is not the name of a variable: letters, digits and underscores, such as COPPICE_SHOP_PASSWORD", p.Variable))
		case p.Hash != "" && !isBcrypt(p.Hash):
			add("password.hash", errors.New("it is not a bcrypt hash, such as 'nats server passwd' prints; a users file has no passwords"))
		case u.NKey != "":
			add("nkey", errors.New("the user has a password, too: write one of the two"))
		}
	}
	if u.NKey != "" && !nkeys.IsValidPublicUserKey(u.NKey) {
		add("nkey", fmt.Errorf("%q is not the public key of a user, which begins with U", u.NKey))
	}
	if len(u.Roles)+len(u.May)+len(u.Finalizers)+len(u.Agents)+len(u.Notices) == 0 {
		all = append(all, errors.New("the user may do nothing: give it roles or rules (may)"))
	}
	for i, name := range u.Roles {
		where := fmt.Sprintf("roles[%d]", i)
		if own, is := f.Roles[name]; !is && builtinRoles[name] == nil {
			add(where, fmt.Errorf("there is no role %q; the built-in ones are %s", name, strings.Join(slices.Sorted(maps.Keys(builtinRoles)), ", ")))
		} else if is && len(own) == 0 {
			add(where, fmt.Errorf("the role %q has no rules", name))
		}
		switch {
		case name == bus.RoleFinalizer && len(u.Finalizers) == 0:
			add(where, fmt.Errorf("the role %s needs finalizers: the names of the finalizers that the user's programs run", name))
		case name == bus.RoleAgent && len(u.Agents) == 0:
			add(where, fmt.Errorf("the role %s needs agents: the kinds of which the user's programs are agents", name))
		}
	}
	if err := f.checkScope(u.Kinds, u.Namespaces, u.Realms); err != nil {
		all = append(all, err)
	}
	for i := range u.May {
		add(fmt.Sprintf("may[%d]", i), f.checkRule(&u.May[i]))
	}
	for i, name := range u.Finalizers {
		add(fmt.Sprintf("finalizers[%d]", i), finalizerName(name))
	}
	for i, name := range u.Notices {
		add(fmt.Sprintf("notices[%d]", i), finalizerName(name))
	}
	for i, resource := range u.Agents {
		if err := lifecycle.CheckResource(lifecycle.SplitResource(resource)); err != nil {
			add(fmt.Sprintf("agents[%d]", i), errors.New(err.Message))
		}
	}
	if len(all) == 0 {
		if _, err := f.rules(u); err != nil {
			all = append(all, err)
		}
	}
	return all
}

func finalizerName(name string) error {
	if err := lifecycle.CheckFinalizer(name); err != nil {
		return errors.New(err.Message)
	}
	if lifecycle.IsBuiltinFinalizer(name) {
		return fmt.Errorf("%s is built in; no client runs it", name)
	}
	return nil
}

func isVariable(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return s != ""
}

// isBcrypt reports whether a text has the form of a bcrypt hash.
func isBcrypt(s string) bool {
	return len(s) == 60 && (strings.HasPrefix(s, "$2a$") || strings.HasPrefix(s, "$2b$") || strings.HasPrefix(s, "$2y$")) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// checkRule returns what is wrong with a rule.
func (f *File) checkRule(r *Rule) error {
	if len(r.Verbs) == 0 {
		return errors.New("verbs: it is empty; name verbs such as get, list and watch")
	}
	for i, v := range r.Verbs {
		if err := checkVerb(v); err != nil {
			return fmt.Errorf("verbs[%d]: %w", i, err)
		}
	}
	return f.checkScope(r.Kinds, r.Namespaces, r.Realms)
}

func (f *File) checkScope(kinds, namespaces, realms []string) error {
	for i, k := range kinds {
		if err := checkKind(k); err != nil {
			return fmt.Errorf("kinds[%d]: %w", i, err)
		}
	}
	for i, ns := range namespaces {
		if err := f.checkNamespace(ns); err != nil {
			return fmt.Errorf("namespaces[%d]: %w", i, err)
		}
	}
	for i, realm := range realms {
		if realm == All {
			continue
		}
		if err := bus.CheckRealm(realm); err != nil {
			return fmt.Errorf("realms[%d]: %w", i, err)
		}
	}
	return nil
}

// checkKind checks a pattern of kinds.
func checkKind(pattern string) error {
	if pattern == All {
		return nil
	}
	group, isGroup := strings.CutPrefix(pattern, "*.")
	plural := "all"
	if !isGroup {
		group, plural = lifecycle.SplitResource(pattern)
	} else if group == "" {
		return fmt.Errorf("%q names no group; write *.example.com", pattern)
	}
	if err := lifecycle.CheckResource(group, plural); err != nil {
		return fmt.Errorf("%q is not a kind: write the plural with the group, such as deployments.apps, *.example.com for a group, or *: %s", pattern, err.Message)
	}
	return nil
}

// checkNamespace checks a pattern of namespaces.
func (f *File) checkNamespace(pattern string) error {
	if pattern == All || pattern == Cluster {
		return nil
	}
	prefix, isPattern := strings.CutSuffix(pattern, All)
	if !isPattern {
		return checkNamespaceName(pattern)
	}
	if err := checkNamespaceName(prefix + "x"); err != nil {
		return err
	}
	if !slices.ContainsFunc(f.Namespaces, func(ns string) bool { return strings.HasPrefix(ns, prefix) }) {
		return fmt.Errorf("%q matches none of the namespaces that the file lists at its top (namespaces); NATS has no such patterns, so that its permissions name these namespaces", pattern)
	}
	return nil
}

func checkNamespaceName(name string) error {
	ns := name
	for i, c := range ns {
		edge := i == 0 || i == len(ns)-1
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || edge) {
			ns = ""
			break
		}
	}
	if ns == "" || len(ns) > 63 {
		return fmt.Errorf("%q is not the name of a namespace: at most 63 lower case letters, digits and hyphens, starting and ending with a letter or digit; write %s for objects without a namespace", name, Cluster)
	}
	return nil
}
