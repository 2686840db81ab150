package model_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// said returns the members that a manifest sets, in the form of the record of an apply: the path of each
// member that has no members, in order.
func (it *item) said() string {
	o := it.object
	var list []string
	for k := range labelMap(o.labels) {
		list = append(list, "metadata/labels/"+k)
	}
	for _, f := range o.finalizers {
		list = append(list, "metadata/finalizers/"+f)
	}
	for _, r := range o.owners {
		switch owner := "metadata/ownerReferences/" + r.uid; {
		case r.controller == "" && r.blocking == "":
			list = append(list, owner)
		default:
			if r.controller != "" {
				list = append(list, owner+"/controller")
			}
			if r.blocking != "" {
				list = append(list, owner+"/blockOwnerDeletion")
			}
		}
	}
	for _, u := range o.uses {
		list = append(list, "metadata/uses/"+u.applied())
	}
	if o.expires != 0 {
		list = append(list, "metadata/expiresAt")
	}
	if o.spec != "" {
		var v any
		_ = json.Unmarshal([]byte(o.spec), &v)
		list = append(list, leaves("spec", v)...)
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

func (u use) applied() string { return u.group + "." + u.kind + "." + u.name }

func leaves(path string, v any) (list []string) {
	members, _ := v.(map[string]any)
	for name, member := range members {
		if member != nil {
			list = append(list, leaves(path+"/"+name, member)...)
		}
	}
	if len(list) == 0 {
		return []string{path}
	}
	return list
}

// appliedOf returns the record of an event as said returns it.
func appliedOf(b *coppicev1.Body) string {
	if len(b.GetApplied()) == 0 {
		return ""
	}
	var v map[string]any
	if err := json.Unmarshal(b.GetApplied(), &v); err != nil {
		panic(err)
	}
	var list []string
	for _, path := range leaves("", v) {
		path = strings.ReplaceAll(strings.TrimPrefix(path, "/"), "f:", "")
		if rest, ok := strings.CutPrefix(path, "metadata/finalizers/v:"); ok {
			path = "metadata/finalizers/" + strings.Trim(rest, `"`)
		}
		for _, of := range []string{"metadata/ownerReferences/", "metadata/uses/"} {
			rest, ok := strings.CutPrefix(path, of+"k:")
			if !ok {
				continue
			}
			var key struct{ UID, Group, Kind, Name string }
			end := strings.LastIndex(rest, "}") + 1
			if err := json.Unmarshal([]byte(rest[:end]), &key); err != nil {
				panic(err)
			}
			if path = of + key.UID + rest[end:]; key.UID == "" {
				path = of + use{group: key.Group, kind: key.Kind, name: key.Name}.applied()
			}
		}
		list = append(list, path)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// appliedTo returns what an object becomes by a manifest: what the last manifest has set and this one has not
// goes, and what others have set stays.
func appliedTo(o *object, it *item) *object {
	next, manifest := *o, it.object
	now, lost := strings.Fields(it.said()), map[string]bool{}
	for _, path := range strings.Fields(o.applied) {
		lost[path] = !slices.Contains(now, path)
	}
	next.applied = it.said()
	labels := labelMap(o.labels)
	maps.DeleteFunc(labels, func(k, _ string) bool { return lost["metadata/labels/"+k] })
	maps.Copy(labels, labelMap(manifest.labels))
	next.labels = labelText(labels)
	next.finalizers = slices.DeleteFunc(slices.Clone(o.finalizers), func(f string) bool { return lost["metadata/finalizers/"+f] })
	for _, f := range manifest.finalizers {
		if !slices.Contains(next.finalizers, f) {
			next.finalizers = append(next.finalizers, f)
		}
	}
	next.owners, next.uses = appliedOwners(o, manifest.owners, lost), appliedUses(o, manifest.uses, lost)
	if lost["metadata/expiresAt"] {
		next.expires = 0
	}
	if manifest.expires != 0 {
		next.expires = manifest.expires
	}
	next.spec = appliedSpec(o.spec, manifest.spec, lost)
	if manifest.version != "" && it.sets["version"] {
		next.version = manifest.version
	}
	return &next
}

// appliedOwners pairs references of one uid in their order.
func appliedOwners(o *object, manifest []ref, lost map[string]bool) (list []ref) {
	left := slices.Clone(merged(manifest))
	for _, r := range o.owners {
		path := "metadata/ownerReferences/" + r.uid
		same := func(s ref) bool { return s.uid == r.uid }
		i := slices.IndexFunc(left, same)
		switch {
		case i >= 0:
			s := left[i]
			left = slices.Delete(left, i, i+1)
			if s.controller == "" && !lost[path+"/controller"] {
				s.controller = r.controller
			}
			if s.blocking == "" && !lost[path+"/blockOwnerDeletion"] {
				s.blocking = r.blocking
			}
			list = append(list, s)
		case !slices.ContainsFunc(manifest, same) && !lost[path] && !lost[path+"/controller"] && !lost[path+"/blockOwnerDeletion"]:
			list = append(list, r)
		}
	}
	return append(list, left...)
}

func appliedUses(o *object, manifest []use, lost map[string]bool) (list []use) {
	left := slices.Clone(manifest)
	for _, u := range o.uses {
		same := func(s use) bool { return s.applied() == u.applied() }
		switch i := slices.IndexFunc(left, same); {
		case i >= 0:
			list, left = append(list, left[i]), slices.Delete(left, i, i+1)
		case !slices.ContainsFunc(manifest, same) && !lost["metadata/uses/"+u.applied()]:
			list = append(list, u)
		}
	}
	return append(list, left...)
}

func appliedSpec(stored, manifest string, lost map[string]bool) string {
	if stored == "" && manifest == "" {
		return ""
	}
	spec := fields(stored)
	for k := range spec {
		if lost["spec/"+k] {
			delete(spec, k)
		}
	}
	if manifest == "" && len(spec) == 0 && (lost["spec"] || len(fields(stored)) > 0) {
		return ""
	}
	maps.Copy(spec, fields(manifest))
	b, _ := json.Marshal(spec)
	return string(b)
}
