package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/examples/deployment"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// demoKinds are the kinds of the demo's objects, and the actors that create them.
var demoKinds = map[string]struct {
	resource client.Resource
	maker    string
}{
	"Deployment": {client.Resource{Group: "apps", Plural: "deployments"}, "ana"},
	"ReplicaSet": {client.Resource{Group: "apps", Plural: "replicasets"}, "deployment-controller"},
	"Pod":        {client.Resource{Plural: "pods"}, "replicaset-controller"},
	"Service":    {client.Resource{Plural: "services"}, "ana"},
	"ConfigMap":  {client.Resource{Plural: "configmaps"}, "ana"},
}

// populate creates the Deployment of the example manifests and its dependents in a
// namespace, with new uids. The actor of each creation is the component that creates
// such objects in Kubernetes. It returns the objects by key.
func (d *demo) populate(ctx context.Context, namespace string) (map[string]*coppicev1.Object, error) {
	files, err := fs.Glob(deployment.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	made, uids := map[string]*coppicev1.Object{}, map[string]string{}
	for _, file := range files {
		data, err := deployment.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		entries, err := manifestfile.Read(file, data)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Err != nil {
				return nil, e.Err
			}
			kind, ok := demoKinds[e.Object.GetKind()]
			if !ok {
				return nil, fmt.Errorf("%s: the demo has no objects of the kind %s", e.At, e.Object.GetKind())
			}
			m := e.Object.GetMetadata()
			old := m.GetUid()
			m.Namespace, m.ResourceVersion = namespace, 0
			for _, r := range m.GetOwnerReferences() {
				r.Uid = uids[r.GetUid()]
			}
			result, err := d.as(kind.maker).Resource(kind.resource, namespace).Create(ctx, e.Object)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.At, err)
			}
			uids[old] = result.GetMetadata().GetUid()
			made[kind.resource.String()+"/"+m.GetName()] = result
		}
	}
	return made, nil
}

// left returns the objects of a namespace by key, each with the keys of its owners.
func (d *demo) left(ctx context.Context, namespace string) (map[string]string, error) {
	keys, owners := map[string]string{}, map[string]string{}
	for _, kind := range demoKinds {
		for o, err := range d.Client.Resource(kind.resource, namespace).List(ctx) {
			if err != nil {
				return nil, err
			}
			m := o.GetMetadata()
			names := make([]string, len(m.GetOwnerReferences()))
			for i, r := range m.GetOwnerReferences() {
				names[i] = d.Kinds.ResourceName(r.GetApiVersion(), r.GetKind()) + "/" + r.GetName()
			}
			key := kind.resource.String() + "/" + m.GetName()
			keys[m.GetUid()], owners[key] = key, strings.Join(names, ", ")
		}
	}
	return owners, nil
}

// awaitLeft waits until exactly these objects are left in a namespace.
func (d *demo) awaitLeft(ctx context.Context, namespace string, want map[string]string) error {
	var left map[string]string
	if err := poll.Until(ctx, func() (ok bool, err error) {
		left, err = d.left(ctx, namespace)
		return maps.Equal(left, want), err
	}); err != nil {
		return fmt.Errorf("left are %v, want %v: %w", left, want, err)
	}
	return nil
}

// awaitQuiet waits until no messages of work and no calls are queued.
func (d *demo) awaitQuiet(ctx context.Context) error {
	var left uint64
	if err := poll.Until(ctx, func() (bool, error) {
		reply, err := d.Client.Operations().Consumers(ctx)
		left = reply.GetQueuedWork() + reply.GetQueuedCalls()
		return err == nil && left == 0, err
	}); err != nil {
		return fmt.Errorf("%d messages of work are left: %w", left, err)
	}
	return nil
}
