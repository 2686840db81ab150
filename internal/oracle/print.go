package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// outcome is a request with its reply.
type outcome struct {
	verb  Verb
	world string
	asked []byte // the body
	reply *Reply
	// before and after are the stored object before and after the request, nil if there
	// was none.
	before, after Object
}

func (o *outcome) accepted() bool { return o.reply.Code < 300 }

// String formats the outcome: see the package comment.
func (o *outcome) String() string {
	text := fmt.Sprint(o.reply.Code)
	if !o.accepted() {
		return text + o.refusal() + o.changed()
	}
	if o.reply.Object != nil {
		text += " " + o.summary(o.reply.Object) + o.own()
	}
	if o.reply.Warned {
		text += " warned"
	}
	return text + o.changed()
}

func (o *outcome) refusal() string {
	text := " " + o.reply.Reason
	if strings.Contains(o.reply.Message, "object is being deleted: ") {
		text += ", being deleted"
	}
	var causes []string
	for _, c := range o.reply.Causes {
		causes = append(causes, c.Reason+" "+c.Field)
	}
	slices.Sort(causes)
	for _, c := range slices.Compact(causes) {
		text += " " + c
	}
	return text
}

// changed describes the stored object after the request, unless it is as the reply says.
func (o *outcome) changed() string {
	switch {
	case o.after == nil && o.before != nil:
		return "; gone"
	case o.after == nil && o.accepted():
		return "; not stored"
	case o.after == nil:
		return ""
	case o.before != nil && o.after.text("resourceVersion") == o.before.text("resourceVersion"):
		if !o.accepted() {
			return ""
		}
		return "; unchanged"
	case o.reply.Object == nil || o.summary(o.reply.Object) != o.summary(o.after) ||
		o.reply.Object.text("resourceVersion") != o.after.text("resourceVersion"):
		return "; stored: " + o.summary(o.after)
	}
	return ""
}

// own describes the fields that only the server sets.
func (o *outcome) own() string {
	asked, err := ReadObject(o.asked)
	if err != nil || o.verb == Delete || o.verb == Patch {
		return ""
	}
	text := ""
	for _, f := range []struct{ field, called string }{{"uid", "uid"}, {"creationTimestamp", "created"}} {
		was, is := asked.text(f.field), o.reply.Object.text(f.field)
		switch {
		case o.before == nil && was == "" && is != "":
		case is == "":
			text += " no " + f.called
		case o.before == nil && was != is:
			text += " own " + f.called
		case o.before != nil && o.before.text(f.field) != is:
			text += " other " + f.called
		}
	}
	if prefix := asked.text("generateName"); prefix != "" && asked.text("name") == "" {
		suffix, _ := strings.CutPrefix(o.reply.Object.text("name"), prefix)
		text += " name=" + prefix + strings.Repeat("?", len(suffix))
	}
	if o.before != nil && o.before.text("deletionTimestamp") != "" && o.before.text("deletionTimestamp") != o.reply.Object.text("deletionTimestamp") {
		text += " other deletionTimestamp"
	}
	return text
}

// summary describes the fields of an object that scripts test.
func (o *outcome) summary(object Object) string {
	m := object.metadata()
	if len(m) == 0 {
		return "an empty object"
	}
	words := []string{fmt.Sprintf("generation=%v", m["generation"])}
	if object.text("deletionTimestamp") != "" {
		words = append(words, "deleted")
	}
	if grace, is := m["deletionGracePeriodSeconds"]; is {
		words = append(words, fmt.Sprintf("grace=%v", grace))
	}
	if owners := object.list("ownerReferences"); len(owners) > 0 {
		words = append(words, "owners=["+o.owners(owners)+"]")
	}
	if finalizers := object.list("finalizers"); len(finalizers) > 0 {
		words = append(words, "finalizers="+brief(fmt.Sprint(finalizers)))
	}
	for _, field := range []string{"labels", "annotations"} {
		if of, _ := m[field].(map[string]any); len(of) > 0 {
			words = append(words, field+"="+brief(strings.TrimPrefix(fmt.Sprint(of), "map")))
		}
	}
	for _, field := range []string{"spec", "status"} {
		if of, is := object[field]; is {
			raw, _ := json.Marshal(of) // it was read from JSON
			words = append(words, field+"="+string(raw))
		}
	}
	return strings.Join(words, " ")
}

func brief(text string) string {
	if len(text) > 60 {
		return fmt.Sprintf("(%d bytes)", len(text))
	}
	return text
}

func (o *outcome) owners(list []any) string {
	var all []string
	for _, r := range list {
		m, _ := r.(map[string]any)
		text := fmt.Sprintf("%v/%s", m["kind"], strings.TrimPrefix(fmt.Sprint(m["name"]), o.world+"."))
		for _, flag := range []struct{ field, called string }{{"blockOwnerDeletion", "blocking"}, {"controller", "controller"}} {
			if v, is := m[flag.field]; is {
				text += fmt.Sprintf(" %s=%v", flag.called, v)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
