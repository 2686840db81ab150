package model_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// attempt is the time for which an attempt of a request waits for the reply. A request that
// a stopped service did not handle is sent again.
const attempt = time.Second

func (s *script) send(ctx context.Context, id uuid.UUID, c *command) (*coppicev1.ObjectsReply, error) {
	at := bus.API{Realm: bus.DefaultRealm, Actor: s.tag, Verb: c.verb, Group: c.resource.group, Plural: c.resource.plural, Namespace: c.ns}
	it := c.items[0]
	at.Finalizer = it.finalizer
	header := nats.Header{bus.HeaderCommand: []string{id.String()}}
	var request proto.Message
	var reply coppicev1.ObjectsReply
	options := &coppicev1.DeleteOptions{PropagationPolicy: it.policy, OrphanDependents: it.orphan, GracePeriodSeconds: it.grace}
	pre := &coppicev1.Preconditions{Uid: it.uid, ResourceVersion: it.revision}
	if c.dry {
		options.DryRun = []string{"All"}
	}
	switch c.verb {
	case bus.VerbDelete:
		options.Preconditions = pre
		request = &coppicev1.DeleteRequest{Names: []string{it.name}, Options: options, Version: it.version}
	case bus.VerbDeleteCollection:
		return s.deleteCollection(ctx, at, &coppicev1.DeleteCollectionRequest{LabelSelector: it.name, All: it.name == "", Options: options})
	case bus.VerbRemoveFinalizer:
		request = &coppicev1.RemoveFinalizerRequest{Objects: []*coppicev1.FinalizerTarget{{Name: it.name, Preconditions: pre}}, Reason: "the script says so"}
	case bus.VerbProtect, bus.VerbUnprotect:
		request = &coppicev1.ProtectRequest{Objects: []*coppicev1.ProtectTarget{{Name: it.name, Preconditions: pre}}, Reason: it.reason, DryRun: c.dry}
	case bus.VerbPatch:
		request = &coppicev1.PatchRequest{Patches: []*coppicev1.Patch{{Name: it.name, Patch: patchOf(c.resource.group, &it), Preconditions: pre}}, DryRun: c.dry}
	case bus.VerbImport:
		request = &coppicev1.ImportRequest{Session: c.session, Objects: []*coppicev1.Object{objectOf(c, &it)}, DryRun: c.dry}
	default:
		request = &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{objectOf(c, &it)}, DryRun: c.dry}
	}
	err := rpc.Retry(ctx, attempt, func(ctx context.Context) error {
		return rpc.Call(ctx, s.w.nc, at.Subject(), header, request, &reply)
	})
	return &reply, err
}

// deleteCollection deletes page by page, and returns the reply of the last page.
func (s *script) deleteCollection(ctx context.Context, at bus.API, request *coppicev1.DeleteCollectionRequest) (*coppicev1.ObjectsReply, error) {
	for {
		var reply coppicev1.DeleteCollectionReply
		if err := rpc.Retry(ctx, attempt, func(ctx context.Context) error {
			return rpc.Call(ctx, s.w.nc, at.Subject(), nil, request, &reply)
		}); err != nil {
			return nil, err
		}
		if request.Continue = reply.GetContinue(); request.Continue == "" {
			return &coppicev1.ObjectsReply{Results: reply.GetResults(), Revision: reply.GetRevision()}, nil
		}
	}
}

func ownersOf(owners []ref) (list []*coppicev1.OwnerReference) {
	flag := func(s string) *bool {
		if s == "" {
			return nil
		}
		v := s == "true"
		return &v
	}
	for _, r := range owners {
		list = append(list, &coppicev1.OwnerReference{
			ApiVersion: apiVersion(r.group, r.version), Kind: r.kind, Name: r.name, Uid: r.uid, Controller: flag(r.controller), BlockOwnerDeletion: flag(r.blocking),
		})
	}
	return list
}

func apiVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// objectOf returns an object as a client sends it.
func objectOf(c *command, it *item) *coppicev1.Object {
	o := it.object
	m := &coppicev1.ObjectMeta{
		Name: it.name, GenerateName: it.generate, Uid: it.uid, ResourceVersion: it.revision,
		OwnerReferences: ownersOf(o.owners), Finalizers: o.finalizers, Labels: labelMap(o.labels),
	}
	if o.expires != 0 {
		m.ExpiresAt = timestamppb.New(time.UnixMicro(o.expires))
	}
	for _, u := range o.uses {
		m.Uses = append(m.Uses, &coppicev1.Use{Group: u.group, Kind: u.kind, Name: u.name, Uid: u.uid})
	}
	p := &coppicev1.Object{Metadata: m, Spec: []byte(o.spec), Status: []byte(o.status)}
	if c.verb != bus.VerbApply || it.sets["version"] {
		for _, al := range aliases {
			if al.plural == c.resource.plural {
				p.ApiVersion, p.Kind = apiVersion(c.resource.group, o.version), al.kind
			}
		}
	}
	if c.verb == bus.VerbImport {
		if m.Uid = o.uid; o.terminating() {
			m.DeletionTimestamp, m.DeletionGracePeriodSeconds = timestamppb.New(time.UnixMicro(o.deleted)), &o.grace
		}
	}
	if o.uninitialized() {
		m.Initializers = &coppicev1.Initializers{}
		for _, name := range o.pending {
			m.Initializers.Pending = append(m.Initializers.Pending, &coppicev1.Initializer{Name: name})
		}
		if o.failed {
			m.Initializers.Result = &coppicev1.Status{Status: "Failure", Message: "it did not work"}
		}
	}
	return p
}

// patchOf returns a merge patch of the fields that an item mentions.
func patchOf(group string, it *item) []byte {
	meta, patch := map[string]any{}, map[string]any{}
	if it.sets["labels"] {
		meta["labels"] = labelMap(it.object.labels)
	}
	if it.sets["fin"] {
		meta["finalizers"] = append([]string{}, it.object.finalizers...)
	}
	if it.sets["expires"] {
		meta["expiresAt"] = time.UnixMicro(it.object.expires).UTC().Format(time.RFC3339)
	}
	if it.sets["uses"] {
		list := []map[string]any{}
		for _, u := range it.object.uses {
			list = append(list, map[string]any{"group": u.group, "kind": u.kind, "name": u.name, "uid": u.uid})
		}
		meta["uses"] = list
	}
	if it.sets["owners"] {
		list := []map[string]any{}
		for _, r := range it.object.owners {
			o := map[string]any{"apiVersion": apiVersion(r.group, r.version), "kind": r.kind, "name": r.name, "uid": r.uid}
			if r.controller != "" {
				o["controller"] = r.controller == "true"
			}
			if r.blocking != "" {
				o["blockOwnerDeletion"] = r.blocking == "true"
			}
			list = append(list, o)
		}
		meta["ownerReferences"] = list
	}
	if len(meta) > 0 {
		patch["metadata"] = meta
	}
	if it.sets["version"] {
		patch["apiVersion"] = apiVersion(group, it.object.version)
	}
	if it.sets["spec"] && it.object.spec != "" {
		patch["spec"] = json.RawMessage(it.object.spec)
	}
	b, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	return b
}
