package oracle

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// Script plays a script.
type Script struct {
	server  Server
	applier Applier
	// name differs between scripts that are played against one server, and world between
	// the parts of one script. Both are in namespaces, and in the names of cluster-scoped
	// objects.
	name  string
	world int
	// uids are the last known uids of objects.
	uids map[string]string
	// created are the objects that were created in this world.
	created []madeObject
	// version is the version of the server from which outputs are recorded.
	version string
	sum     Sum
	done    bool
}

// madeObject is an object as a script names it.
type madeObject struct {
	kind Kind
	name string
}

// New returns a Script without objects. version is the version of the server.
func New(name string, server Server, version string) *Script {
	return &Script{name: name, server: server, version: version, uids: map[string]string{}}
}

// NewApply returns a Script that has the commands apply-table and apply-steps.
func NewApply(name string, applier Applier, version string) *Script {
	return &Script{name: name, applier: applier, version: version}
}

// Run plays one case of the script.
func (s *Script) Run(ctx context.Context, d *datadriven.TestData) (string, error) {
	if s.done {
		return "", fmt.Errorf("nothing can follow %q: it is the end of what is recorded", recorded)
	}
	if d.Cmd == recorded {
		s.done = true
		return s.sum.Of(s.version), nil
	}
	s.sum.Add(d)
	input, err := ParseInput(d.Input)
	if err != nil {
		return "", err
	}
	if s.applier != nil {
		return s.apply(ctx, d, input.Lines)
	}
	tables := map[string]func(context.Context, []string) (string, error){
		"each": s.each, "delete-table": s.deleteTable, "repeat-table": s.repeatTable,
		"settled": s.settled, "class-table": s.classTable,
	}
	if table, is := tables[d.Cmd]; is {
		defer s.newWorld()
		return table(ctx, input.Lines)
	}
	o, err := s.play(ctx, d.Cmd, d.CmdArgs)
	if err != nil {
		return "", err
	}
	return o.String() + "\n", nil
}

// Done reports whether the whole script was played.
func (s *Script) Done() bool { return s.done }

// newWorld begins a world without objects.
func (s *Script) newWorld() {
	s.world++
	s.created = nil
}

// namespace returns the namespace of the namespaced objects.
func (s *Script) namespace() string { return fmt.Sprintf("%s-%d", s.name, s.world) }

// at returns a request for the object with this name. The object a@far is named a, and is
// in another namespace.
func (s *Script) at(k Kind, name string) Request {
	if k.Namespaced {
		namespace := s.namespace()
		name, other, is := strings.Cut(name, "@")
		if is {
			namespace += "-" + other
		}
		return Request{Kind: k, Namespace: namespace, Name: name}
	}
	return Request{Kind: k, Name: s.namespace() + "." + name}
}

// line plays the request in a line of text.
func (s *Script) line(ctx context.Context, line string) (*outcome, error) {
	verb, args, err := datadriven.ParseLine(line)
	if err != nil {
		return nil, err
	}
	return s.play(ctx, verb, args)
}

// play plays one request, and reads the object before and after it.
func (s *Script) play(ctx context.Context, verb string, args []datadriven.CmdArg) (*outcome, error) {
	c, err := parseCall(verb, args)
	if err != nil {
		return nil, err
	}
	o := &outcome{verb: c.verb, world: s.namespace()}
	at := s.at(c.kind, c.name)
	if o.before, err = s.stored(ctx, at); err != nil {
		return nil, err
	}
	q, err := s.request(c, at, o.before)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", verb, c.kind.Plural, c.name, err)
	}
	if err := c.used(); err != nil {
		return nil, err
	}
	o.asked = q.Body
	if o.reply, err = s.server.Do(ctx, q); err != nil {
		return nil, err
	}
	if c.verb == Create && o.reply.Object != nil {
		if of := (madeObject{c.kind, c.name}); !slices.Contains(s.created, of) {
			s.created = append(s.created, of)
		}
		at.Name = o.reply.Object.text("name") // the server may have generated it
	}
	if o.after, err = s.stored(ctx, at); err != nil {
		return nil, err
	}
	if o.after != nil {
		s.uids[c.kind.Plural+"/"+at.Namespace+"/"+at.Name] = o.after.text("uid")
	}
	return o, nil
}

// stored reads the object, nil if there is none.
func (s *Script) stored(ctx context.Context, at Request) (Object, error) {
	if at.Name == "" {
		return nil, nil
	}
	at.Verb = Get
	reply, err := s.server.Do(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case reply.Code == 404:
		return nil, nil
	case reply.Code != 200:
		return nil, fmt.Errorf("get %s/%s: %d %s: %s", at.Kind.Plural, at.Name, reply.Code, reply.Reason, reply.Message)
	}
	return reply.Object, nil
}

// request returns the request of a call.
func (s *Script) request(c *call, at Request, stored Object) (Request, error) {
	q := at
	q.Verb = c.verb
	if c.verb == Delete {
		var err error
		q.Body, err = c.deleteOptions(stored)
		return q, err
	}
	q.DryRun = c.flag("dry-run")
	o := Object{"metadata": map[string]any{}}
	switch {
	case c.verb == Patch: // a patch has only the fields that it changes
	case c.verb == Create || stored == nil:
		o = Object{"apiVersion": apiVersion, "kind": c.kind.Kind, "metadata": map[string]any{"name": at.Name}}
	default:
		var err error
		if o, err = stored.copied(); err != nil {
			return q, err
		}
	}
	if err := c.fill(o, stored, s.find); err != nil {
		return q, err
	}
	if c.verb == Create {
		q.Name = ""
	}
	var err error
	q.Body, err = json.Marshal(o)
	return q, err
}

// find is a resolve. An object that was never created has a uid that no object has.
func (s *Script) find(k Kind, name string) (called, uid string) {
	at := s.at(k, name)
	path := k.Plural + "/" + at.Namespace + "/" + at.Name
	if uid, seen := s.uids[path]; seen {
		return at.Name, uid
	}
	sum := sha256.Sum256([]byte(path))
	return at.Name, fmt.Sprintf("never-seen-%x", sum[:8])
}

// failed is an outcome that a table does not expect.
func failed(line string, o *outcome) error {
	return fmt.Errorf("%s: %s: %s", strings.TrimSpace(line), o, o.reply.Message)
}
