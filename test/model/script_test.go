package model_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
)

// A script is text, one operation in each line:
//
//	create cm/a owners=po/b!,rc/c* fin=example.com/x,orphan labels=app=web spec=v=1
//	update cm/a owners=-            what is not said stays as it is known to be
//	delete po/b policy=Foreground grace=0 uid=wrong rv=stale dry twice
//	import cm/a uid=gone deleting owners=po/never
//	& update cm/b fin=-             at the same time as the line after it
//	settle
//
// A target is a kind and a name; "cm/a@x" is in the script's other namespace. An
// owner is a target with "!" for blocking, "." for explicitly not, "*" for the
// controller, and one of ~name ~kind ~group ~uid ~never ~old ~version ~empty for what
// is wrong with it.

// alias maps the names of kinds in scripts to kinds.
type alias struct {
	resource
	kind, version string
	cluster       bool
}

var aliases = map[string]alias{
	"cm":   {resource{"", "configmaps"}, "ConfigMap", "v1", false},
	"po":   {resource{"", "pods"}, "Pod", "v1", false},
	"rc":   {resource{"", "replicationcontrollers"}, "ReplicationController", "v1", false},
	"ev":   {resource{"", "events"}, "Event", "v1", false},
	"no":   {resource{"", "nodes"}, "Node", "v1", true},
	"ns":   {resource{"", "namespaces"}, "Namespace", "v1", true},
	"wd":   {resource{"test.example.com", "widgets"}, "Widget", "v1", false},
	"ow":   {resource{oldGroup, "widgets"}, "Widget", "v1", false},
	"en":   {resource{"test.example.com", "engines"}, servedKind, "v1", false},
	"kind": {resource{"coppice.dev", "kinds"}, "Kind", "v1", true},
	"pp":   {resource{"coppice.dev", "protectionpolicies"}, "ProtectionPolicy", "v1", true},
	"xp":   {resource{"coppice.dev", "expirypolicies"}, "ExpiryPolicy", "v1", true},
	"lt":   {resource{"?", "lates"}, "Late", "v1", false},
}

// oldGroup is the group from which widgets have moved to test.example.com.
const oldGroup = "old.example.com"

// What is served: a finalizer, and the agent of a kind.
const (
	servedFinalizer = "example.com/bucket"
	servedKind      = "Engine"
	served          = "served"
)

// target is the place of an object that a script names.
type target struct {
	alias
	place
}

func (s *script) target(word string) (target, error) {
	name, x := strings.CutSuffix(word, "@x")
	short, name, ok := strings.Cut(name, "/")
	al, known := aliases[short]
	if !ok || !known {
		return target{}, fmt.Errorf("%q is not a target", word)
	}
	if al.group == "?" {
		al.group = s.tag + ".example.com"
	}
	t := target{al, place{al.group, al.kind, s.tag, name}}
	if x {
		t.ns += "-x"
	}
	switch {
	case short == "ns" && name == "x":
		t.ns, t.name = "", s.tag+"-x"
	case short == "ns":
		t.ns, t.name = "", s.tag
	case short == "kind":
		t.ns, t.name = "", "lates."+s.tag+".example.com"
	case al.cluster:
		t.ns, t.name = "", s.tag+"-"+name
	}
	return t, nil
}

// owner reads an owner reference, and takes the uid from the present state of the model.
func (s *script) owner(word string) (ref, error) {
	word, wrong, _ := strings.Cut(word, "~")
	var r ref
	for strings.ContainsAny(word[len(word)-1:], "!.*") {
		switch word[len(word)-1] {
		case '!':
			r.blocking = "true"
		case '.':
			r.blocking = "false"
		case '*':
			r.controller = "true"
		}
		word = word[:len(word)-1]
	}
	t, err := s.target(word)
	if err != nil {
		return r, err
	}
	p := t.place
	r.group, r.version, r.kind, r.name = p.group, t.version, p.kind, p.name
	never := "never-" + s.tag + "-" + t.plural + "-" + t.name
	if r.uid = s.a.m.names[t.place]; r.uid == "" {
		if r.uid = s.a.gone(t.place); r.uid == "" {
			r.uid = never
		}
	}
	if s.importing {
		r.uid = s.imported(t)
	}
	switch wrong {
	case "":
	case "name":
		r.name += "z"
	case "kind":
		r.kind = "Secret"
	case "group":
		if r.group = oldGroup; t.group == oldGroup {
			r.group = "test.example.com"
		}
	case "uid":
		r.uid = s.a.any(s.tag, r.uid)
	case "never":
		r.uid = never
	case "old":
		if old := s.a.gone(t.place); old != "" {
			r.uid = old
		}
	case "version":
		r.version = "v9"
	case "unheard":
		r.group, r.kind = "unheard.example.com", "Unheard"
	case "empty":
		r.uid = ""
	default:
		return r, fmt.Errorf("%q is nothing that can be wrong with an owner", wrong)
	}
	return r, nil
}

// imported returns the uid that an import gives an object.
func (s *script) imported(t target) string { return "imp-" + s.tag + "-" + t.plural + "-" + t.name }

// gone returns the uid of the object that was removed last from a place.
func (a *auditor) gone(p place) (uid string) {
	last := uint64(0)
	for u, r := range a.m.removed {
		if r.place == p && r.revision > last {
			uid, last = u, r.revision
		}
	}
	return uid
}

// any returns the uid of another object of the script.
func (a *auditor) any(tag, but string) string {
	list := []string{but}
	for u := range a.of[tag] {
		if u != but {
			list = append(list, u)
		}
	}
	slices.Sort(list)
	return list[0]
}

// arguments has the words after a target.
type arguments map[string]string

func parseArguments(words []string) arguments {
	args := arguments{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	return args
}

func (args arguments) has(k string) bool {
	_, ok := args[k]
	return ok
}

// list returns a list; "-" is the empty list.
func (args arguments) list(k string) []string {
	return strings.FieldsFunc(args[k], func(r rune) bool { return r == ',' || r == '-' && args[k] == "-" })
}

// jsonOf returns a flat JSON object, which scripts write as "a=1,b=x".
func jsonOf(words []string) string {
	if len(words) == 0 {
		return ""
	}
	v := map[string]any{}
	for _, w := range words {
		k, text, _ := strings.Cut(w, ":")
		if n, err := strconv.Atoi(text); err == nil {
			v[k] = n
		} else {
			v[k] = text
		}
	}
	b, _ := json.Marshal(v)
	return string(b)
}

const lateSpec = `{"group":%q,"kind":"Late","plural":"lates","scope":"Namespaced",%s"versions":[{"name":"v1"}]}`

// object returns an object with the fields that the arguments name changed.
func (s *script) object(t target, args arguments, base *object) (*object, error) {
	o := &object{version: t.version, grace: none, agent: none}
	if base != nil {
		c := *base
		o = &c
	}
	if args.has("version") {
		o.version = args["version"]
	}
	if args.has("owners") {
		o.owners = nil
		for _, w := range args.list("owners") {
			r, err := s.owner(w)
			if err != nil {
				return nil, err
			}
			o.owners = append(o.owners, r)
		}
	}
	if args.has("uses") {
		o.uses = nil
		for _, w := range args.list("uses") {
			w, bound := strings.CutSuffix(w, "~uid")
			used, err := s.target(w)
			if err != nil {
				return nil, err
			}
			p := used.place
			u := use{group: p.group, kind: p.kind, name: p.name}
			if bound {
				u.uid = cmp.Or(s.a.m.names[used.place], s.a.gone(used.place))
			}
			o.uses = append(o.uses, u)
		}
	}
	if args.has("fin") {
		o.finalizers = args.list("fin")
	}
	if args.has("labels") {
		o.labels = args["labels"]
	}
	if args.has("spec") {
		o.spec = jsonOf(args.list("spec"))
	}
	if args.has("status") {
		o.status = jsonOf(args.list("status"))
	}
	if args.has("init") {
		o.pending = args.list("init")
	}
	if args.has("covers") {
		p := policySpec{Kind: "ConfigMap", Selector: "tier=" + s.tag, Reason: "the script says so"}
		switch args["covers"] {
		case "web":
			p.Selector += ",app=web"
		case "late":
			p.Group, p.Kind, p.Selector = s.tag+".example.com", "Late", ""
		}
		b, _ := json.Marshal(map[string]string{"group": p.Group, "kind": p.Kind, "selector": p.Selector, "reason": p.Reason})
		o.spec = string(b)
	}
	if args.has("expires") {
		o.expires = expiry(args["expires"], s.w.now().UnixMicro())
	}
	if t.place.kind == "ExpiryPolicy" {
		spec := map[string]any{"kind": "ConfigMap", "selector": "tier=" + s.tag + ",app=web"}
		for _, name := range []string{"minAge", "minUnchanged"} {
			if args.has(name) {
				spec[name] = args[name]
			}
		}
		if args.has("reportOnly") {
			spec["reportOnly"] = true
		}
		b, _ := json.Marshal(spec)
		o.spec = string(b)
	}
	if t.place.kind == "Kind" && base == nil {
		limit := ""
		for _, of := range []string{"objects", "percent"} {
			if args.has(of) {
				limit = fmt.Sprintf(`"brake":{%q:%s,"window":"10m0s"},`, of, args[of])
			}
		}
		o.spec = canonical(fmt.Appendf(nil, lateSpec, s.tag+".example.com", limit))
	}
	return o, nil
}

// command reads a line that is a command of the object API.
func (s *script) command(words []string) (*command, error) {
	verb := words[0]
	if verb == "options" {
		return optionsCommand(parseArguments(words[1:])), nil
	}
	t, err := s.target(words[1])
	if err != nil {
		return nil, err
	}
	args := parseArguments(words[2:])
	if args.has("labels") {
		args["labels"] = strings.ReplaceAll(args["labels"], "tier=prod", "tier="+s.tag) // policies select by it
	}
	c := &command{verb: verb, resource: t.resource, ns: t.ns, dry: args.has("dry"), actor: s.tag}
	it := item{name: t.name, policy: args["policy"], version: args["version"], reason: cmp.Or(args["reason"], "the script says so")}
	is := s.a.m.at(t.place)
	base := is
	switch verb {
	case "create", "apply", "import", "generate", "patch":
		base = nil
	case "initialize", "fail":
		c.verb = bus.VerbUpdate
		if is != nil {
			o := *is
			if base = &o; verb == "fail" {
				o.failed = true
			} else if len(o.pending) > 0 {
				o.pending = o.pending[1:]
			}
		}
	case "status":
		c.verb = bus.VerbUpdateStatus
		if is != nil && args["status"] == "observed:now" {
			args["status"] = fmt.Sprintf("observedGeneration:%d", is.generation)
		}
	case "unfinalize":
		c.verb, it.finalizer = bus.VerbRemoveFinalizer, args["fin"]
	}
	if it.object, err = s.object(t, args, base); err != nil {
		return nil, err
	}
	switch verb {
	case "generate":
		c.verb, it.generate, it.name = bus.VerbCreate, it.name+"-", ""
	case "import":
		c.session = s.tag
		it.object.uid = s.imported(t)
		switch old := s.a.gone(t.place); args["uid"] {
		case "live":
			if is != nil {
				it.object.uid = is.uid
			}
		case "any":
			it.object.uid = s.a.any(s.tag, it.object.uid)
		case "old":
			if old != "" {
				it.object.uid = old
			}
		}
		if args.has("deleting") {
			it.object.deleted, it.object.grace = 1_700_000_000_000_000, 0
		}
	case "patch", "apply":
		it.sets = map[string]bool{}
		for k, v := range args {
			it.sets[k] = verb == "patch" || v != "" && v != "-" // a manifest leaves out empty fields
		}
	}
	if is != nil {
		switch args["uid"] {
		case "wrong":
			it.uid = "wrong-uid"
		case "now":
			it.uid = is.uid
		}
		switch args["rv"] {
		case "now":
			it.revision = is.revision
		case "stale":
			it.revision = is.revision - 1
		}
	}
	if args.has("orphan") {
		v := args["orphan"] == "true"
		it.orphan = &v
	}
	if args.has("grace") {
		v, err := strconv.ParseInt(args["grace"], 10, 64)
		if err != nil {
			return nil, err
		}
		it.grace = &v
	}
	if verb == "deletecollection" {
		it.name = args["labels"]
	}
	c.items = []item{it}
	return c, nil
}

// optionsCommand sets the realm settings.
func optionsCommand(args arguments) *command {
	spec := map[string]string{"ownerGrace": "10m", "importIdle": "10m"}
	for from, to := range map[string]string{"grace": "ownerGrace", "propagation": "processorPropagation", "cycles": "unreachableCycles", "retention": "logRetention"} {
		if args.has(from) {
			spec[to] = args[from]
		}
	}
	b, _ := json.Marshal(spec)
	o := &object{version: "v1", spec: string(b), grace: none, agent: none}
	return &command{verb: bus.VerbApply, resource: resource{"coppice.dev", "realms"}, items: []item{{name: "settings", object: o, sets: map[string]bool{"spec": true}}}}
}
