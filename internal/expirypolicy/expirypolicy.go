// Package expirypolicy reads expiry policies, and evaluates them on objects (B6.5). A policy is
// immutable and safe for concurrent use.
package expirypolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/selector"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Kind and Plural are the names of the kind of expiry policies in the group api.Group.
const (
	Kind   = "ExpiryPolicy"
	Plural = "expirypolicies"
)

// The values of spec.onSilence.
const (
	SilenceDelete = "delete"
	SilenceKeep   = "keep"
)

// Limits of a policy. Costs are those of CEL: about one for each operation.
const (
	maxSize   = 16 << 10 // of the condition and of the selector, each, in bytes
	maxCost   = 100_000
	maxPeriod = 10 * 365 * 24 * time.Hour
)

// Policy is an expiry policy.
type Policy struct {
	api.ExpiryPolicy
	// MinAge, MinUnchanged and Notice are those of the spec; zero if it has none.
	MinAge, MinUnchanged, Notice time.Duration

	labels    selector.Selector
	condition cel.Program // nil for none
}

// Parse reads the spec of a policy. The error names the member that is wrong.
func Parse(spec []byte) (*Policy, error) {
	p := &Policy{}
	d := json.NewDecoder(bytes.NewReader(spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&p.ExpiryPolicy); err != nil {
		return nil, fmt.Errorf("spec: not the spec of an expiry policy: %w", err)
	}
	switch {
	case p.Kind == "":
		return nil, errors.New("spec.kind: a policy is about objects of one kind")
	case p.Group == api.Group:
		return nil, fmt.Errorf("spec.group: objects of the group %s do not expire by a policy", api.Group)
	case p.ExpiryPolicy.MinAge == "" && p.ExpiryPolicy.MinUnchanged == "" && p.Condition == "":
		return nil, errors.New("spec: a policy has minAge, minUnchanged or a condition, so that it does not delete every object of the kind")
	}
	var err error
	for _, f := range []struct {
		field, text string
		into        *time.Duration
	}{{"minAge", p.ExpiryPolicy.MinAge, &p.MinAge}, {"minUnchanged", p.ExpiryPolicy.MinUnchanged, &p.MinUnchanged}, {"notice", p.ExpiryPolicy.Notice, &p.Notice}} {
		if f.text == "" {
			continue
		}
		if *f.into, err = time.ParseDuration(f.text); err != nil || *f.into <= 0 || *f.into > maxPeriod {
			return nil, fmt.Errorf("spec.%s: %q is not a duration such as 90m or 72h, of at most %s", f.field, f.text, maxPeriod)
		}
	}
	switch {
	case p.OnSilence != "" && p.OnSilence != SilenceDelete && p.OnSilence != SilenceKeep:
		return nil, fmt.Errorf("spec.onSilence: %q is neither %s nor %s", p.OnSilence, SilenceDelete, SilenceKeep)
	case p.OnSilence != "" && p.Notice == 0:
		return nil, errors.New("spec.onSilence: only a policy with a notice waits for answers; set spec.notice, too")
	}
	switch fail := lifecycle.CheckFinalizer(p.Call); {
	case p.Call == "":
	case p.Notice == 0:
		return nil, errors.New("spec.call: only a policy with a notice calls a program; set spec.notice, too")
	case fail != nil || lifecycle.IsBuiltinFinalizer(p.Call):
		return nil, fmt.Errorf("spec.call: %q is not a qualified name such as example.com/keeper", p.Call)
	}
	if len(p.Selector) > maxSize {
		return nil, fmt.Errorf("spec.selector: %d bytes, at most %d", len(p.Selector), maxSize)
	}
	if p.labels, err = selector.Parse(p.Selector); err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	if p.Condition != "" {
		if p.condition, err = compile(p.Condition); err != nil {
			return nil, fmt.Errorf("spec.condition: %w", err)
		}
	}
	return p, nil
}

// compile compiles a condition. Its variables are object, the manifest of the object, and now.
func compile(text string) (cel.Program, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("it has %d bytes, at most %d", len(text), maxSize)
	}
	env, err := cel.NewEnv(cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("now", cel.TimestampType))
	if err != nil {
		return nil, fmt.Errorf("CEL: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it is %s, not true or false", t)
	}
	if err := checkLists(ast); err != nil {
		return nil, err
	}
	return env.Program(ast, cel.CostLimit(maxCost))
}

// checkLists refuses what makes lists or maps of values: they can refer to one another, so that a
// comparison of two takes time without bound, which CEL does not count.
func checkLists(ast *cel.Ast) error {
	for _, called := range ast.NativeRep().ReferenceMap() {
		if slices.Contains(called.OverloadIDs, overloads.AddList) {
			return errors.New("it may join lists: use all and exists instead of map and filter, and convert values that are added, as in int(object.spec.a) + 1")
		}
	}
	constant := true
	celast.PostOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.ListKind:
			for _, element := range e.AsList().Elements() {
				constant = constant && element.Kind() == celast.LiteralKind
			}
		case celast.MapKind, celast.StructKind:
			constant = false
		}
	}))
	if !constant {
		return errors.New("it makes a list or a map of something else than constants such as 'a' and 1")
	}
	return nil
}

// Rule returns what the policy says about notices. n is the object that is the policy.
func (p *Policy) Rule(n *lifecycle.Node) lifecycle.NoticeRule {
	return lifecycle.NoticeRule{Policy: n.UID, Generation: n.Generation, Period: p.Notice, Keep: p.OnSilence == SilenceKeep}
}

// Selects reports whether the policy is about objects with the labels of o.
func (p *Policy) Selects(o *coppicev1.Object) bool {
	return p.labels.Matches(o.GetMetadata().GetLabels())
}

// OldEnough returns when the object has the age that the policy asks for, the zero time if it asks for none.
func (p *Policy) OldEnough(o *coppicev1.Object) time.Time {
	if p.MinAge == 0 {
		return time.Time{}
	}
	return o.GetMetadata().GetCreationTimestamp().AsTime().Add(p.MinAge + time.Second) // creation times are whole seconds
}

// Matches reports whether the object is due by the policy, apart from MinUnchanged: its labels match, it is
// not being deleted, it is old enough at the time now, and the condition is true. The error says why the
// condition has no result, such as a member that the object does not have; then the object is not due.
func (p *Policy) Matches(o *coppicev1.Object, now time.Time) (bool, error) {
	m := o.GetMetadata()
	switch {
	case m.GetDeletionTimestamp() != nil || !p.Selects(o) || p.OldEnough(o).After(now):
		return false, nil
	case p.condition == nil:
		return true, nil
	}
	generic, err := manifestOf(o)
	if err != nil {
		return false, err
	}
	result, _, err := p.condition.Eval(map[string]any{"object": generic, "now": now})
	if err != nil {
		return false, fmt.Errorf("condition: %w", err)
	}
	is, ok := result.Value().(bool)
	if !ok {
		return false, fmt.Errorf("condition: it is %v, not true or false", result.Value())
	}
	return is, nil
}

// manifestOf returns the manifest of an object as CEL reads it: with doubles for numbers.
func manifestOf(o *coppicev1.Object) (m map[string]any, err error) {
	raw, err := manifest.ToJSON(o)
	if err != nil {
		return nil, err
	}
	return m, json.Unmarshal(raw, &m)
}
