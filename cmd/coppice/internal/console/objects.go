package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/explain"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// noNamespace stands in paths for the namespace of objects that have none.
const noNamespace = "-"

// kindsPage replies with the kinds of the realm.
func (r *realm) kindsPage(ctx context.Context, _ *http.Request) (any, error) {
	kinds, err := r.readKinds(ctx)
	if err != nil {
		return nil, err
	}
	list := []view.Kind{}
	for _, k := range kinds.All() {
		list = append(list, kindOf(k))
	}
	return list, nil
}

func kindOf(k client.Kind) view.Kind {
	v := view.Kind{Resource: client.ResourceOf(k).String(), Kind: k.Kind, Namespaced: k.Namespaced()}
	v.APIVersion = k.Group
	if len(k.Versions) > 0 {
		v.APIVersion = strings.TrimPrefix(k.Group+"/"+k.Versions[0].Name, "/")
	}
	return v
}

// objectPage replies with an object, or with what is known of one that was removed.
func (r *realm) objectPage(ctx context.Context, q *http.Request) (any, error) {
	name, uid := q.PathValue("name"), q.FormValue("uid")
	k, namespace, err := r.place(ctx, q)
	if err != nil {
		return nil, err
	}
	p := view.ObjectPage{Ref: view.Ref{Resource: client.ResourceOf(k).String(), Namespace: namespace, Name: name}, Kind: kindOf(k)}
	reader := r.reader(&p.Missing)
	o, err := r.client.Resource(client.ResourceOf(k), namespace).Get(ctx, name, client.IncludeUninitialized(true))
	switch {
	case err == nil && (uid == "" || uid == o.GetMetadata().GetUid()):
		p.Revision = o.GetMetadata().GetResourceVersion()
		if p.Manifest, p.Hidden, err = manifestOf(k, o, q.FormValue("reveal") == "true"); err != nil {
			return nil, err
		}
		p.Explanation, err = explain.Explain(ctx, reader, k, namespace, name)
	case err == nil, errors.Is(err, client.ErrNotFound) && uid != "":
		p.Explanation, err = explain.Removal(ctx, reader, k, namespace, name, uid)
	case errors.Is(err, client.ErrNotFound):
		p.Explanation, err = explain.Explain(ctx, reader, k, namespace, name)
	}
	if err != nil {
		return nil, err
	}
	p.UID, p.State = p.Explanation.UID, p.Explanation.State
	var text strings.Builder
	if err := p.Explanation.Write(&text, reader.Now()); err != nil {
		return nil, err
	}
	p.Text = text.String()
	p.Warnings, err = r.warningsOf(ctx, reader, p.UID)
	return p, err
}

func (r *realm) warningsOf(ctx context.Context, reader *lookup.Reader, uid string) ([]view.Warning, error) {
	found, err := reader.Warnings(ctx, uid, func(client.Warning) bool { return true })
	list := []view.Warning{}
	for _, w := range found {
		list = append(list, view.Warning{
			Ref: view.Ref{Resource: w.Resource, Namespace: w.Namespace, Name: w.Name, UID: w.UID}, Reason: w.Reason, Message: w.Message, Time: w.Time,
		})
	}
	return list, err
}

// manifestOf returns the manifest of an object as YAML. Of a Secret the values are left out, unless they are to be
// revealed.
func manifestOf(k client.Kind, o *coppicev1.Object, reveal bool) (text string, hidden bool, err error) {
	if k.Group == "" && k.Kind == "Secret" && !reveal {
		hidden = true
		if o, err = withoutValues(o); err != nil {
			return "", false, err
		}
	}
	data, err := manifestfile.ToYAML(o)
	return string(data), hidden, err
}

// hiddenValue stands for a value that is not shown.
const hiddenValue = "(hidden)"

// withoutValues returns an object without its values: those of annotations as well, in which tools repeat the others.
func withoutValues(o *coppicev1.Object) (*coppicev1.Object, error) {
	m := o.GetMetadata()
	for name := range m.GetAnnotations() {
		m.Annotations[name] = hiddenValue
	}
	for _, part := range []*[]byte{&o.Spec, &o.Status, &o.Extra} {
		if len(*part) == 0 {
			continue
		}
		var v any
		if err := json.Unmarshal(*part, &v); err != nil {
			return nil, err
		}
		if extra, is := v.(map[string]any); is && part == &o.Extra {
			kind := extra["type"]
			v = hide(v)
			if kind != nil {
				extra["type"] = kind // it says what the Secret is for
			}
		} else {
			v = hide(v)
		}
		var err error
		if *part, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// hide replaces all values that are no lists or objects. It changes objects in place.
func hide(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = hide(value)
		}
		return v
	case []any:
		for i := range v {
			v[i] = hide(v[i])
		}
		return v
	}
	return hiddenValue
}
