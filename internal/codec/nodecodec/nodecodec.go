// Package nodecodec encodes and decodes coppice.v1.Node without reflection. A cascade
// decodes and encodes the node of every object that it changes, so that the codec's
// speed is the cascade's. The encoding is exactly that of the .proto file; a test
// compares it with the generated code.
package nodecodec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Field numbers of coppice.v1.Node, coppice.v1.NodeOwner and coppice.v1.NodeUse.
const (
	nodeUID              = 1
	nodeAPIVersion       = 2
	nodeKind             = 3
	nodeNamespace        = 4
	nodeName             = 5
	nodeGeneration       = 6
	nodeCreationTime     = 7
	nodeOwners           = 8
	nodeFinalizers       = 9
	nodeDeletionTime     = 10
	nodeGracePeriod      = 11
	nodeDeletionRevision = 12
	nodeImportTime       = 13
	nodeImportSession    = 14
	nodeGrace            = 15
	nodeObserved         = 16
	nodeAwaited          = 17
	nodeInitializers     = 18
	nodeFailed           = 19
	nodeProtection       = 20
	nodeExpiresAt        = 21
	nodeUses             = 24

	protectionReason   = 1
	protectionActor    = 2
	protectionTime     = 3
	protectionPolicies = 4

	ownerAPIVersion = 1
	ownerKind       = 2
	ownerName       = 3
	ownerUID        = 4
	ownerController = 5
	ownerBlocking   = 6

	useGroup     = 1
	useKind      = 2
	useName      = 3
	useNamespace = 4
	useUID       = 5
)

// Append appends the encoding of n. The encoding does not contain the revision: in the
// log the event has it, and in the state it precedes the node.
func Append(b []byte, n *lifecycle.Node) []byte {
	b = wire.AppendBytes(b, nodeUID, string(n.UID))
	b = wire.AppendBytes(b, nodeAPIVersion, n.APIVersion)
	b = wire.AppendBytes(b, nodeKind, n.Kind)
	b = wire.AppendBytes(b, nodeNamespace, n.Namespace)
	b = wire.AppendBytes(b, nodeName, n.Name)
	b = wire.AppendVarint(b, nodeGeneration, uint64(n.Generation))
	b = wire.AppendVarint(b, nodeCreationTime, uint64(n.CreationTime))
	for i := range n.Owners {
		o := &n.Owners[i]
		b = protowire.AppendTag(b, nodeOwners, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(ownerSize(o)))
		b = AppendOwner(b, o)
	}
	for _, f := range n.Finalizers {
		b = protowire.AppendTag(b, nodeFinalizers, protowire.BytesType)
		b = protowire.AppendString(b, f)
	}
	b = wire.AppendVarint(b, nodeDeletionTime, uint64(n.DeletionTime))
	b = appendOptional(b, nodeGracePeriod, n.GracePeriod)
	b = wire.AppendVarint(b, nodeDeletionRevision, n.DeletionRevision)
	b = wire.AppendVarint(b, nodeImportTime, uint64(n.ImportTime))
	b = wire.AppendBytes(b, nodeImportSession, n.ImportSession)
	b = appendOptional(b, nodeGrace, n.Grace)
	b = wire.AppendVarint(b, nodeObserved, uint64(n.ObservedGeneration))
	b = wire.AppendVarint(b, nodeAwaited, uint64(n.AwaitedGeneration))
	for _, name := range n.Initializers {
		b = protowire.AppendTag(b, nodeInitializers, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	b = wire.AppendVarint(b, nodeFailed, protowire.EncodeBool(n.InitializationFailed))
	b = wire.AppendVarint(b, nodeExpiresAt, uint64(n.ExpiresAt))
	for i := range n.Uses {
		b = appendUse(b, &n.Uses[i])
	}
	if n.Protection != nil {
		b = appendProtection(b, n.Protection)
	}
	return b
}

func appendUse(b []byte, u *lifecycle.Use) []byte {
	b, at := wire.Open(b, nodeUses)
	b = wire.AppendBytes(b, useGroup, u.Group)
	b = wire.AppendBytes(b, useKind, u.Kind)
	b = wire.AppendBytes(b, useName, u.Name)
	b = wire.AppendBytes(b, useNamespace, u.Namespace)
	b = wire.AppendBytes(b, useUID, string(u.UID))
	return wire.Close(b, at)
}

func appendProtection(b []byte, p *lifecycle.Protection) []byte {
	var at int
	b, at = wire.Open(b, nodeProtection)
	b = wire.AppendBytes(b, protectionReason, p.Reason)
	b = wire.AppendBytes(b, protectionActor, p.Actor)
	b = wire.AppendVarint(b, protectionTime, uint64(p.Time))
	for _, name := range p.Policies {
		b = protowire.AppendTag(b, protectionPolicies, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	return wire.Close(b, at)
}

func appendOptional(b []byte, field protowire.Number, v *int64) []byte {
	if v == nil {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(*v))
}

// AppendOwner appends the encoding of a coppice.v1.NodeOwner.
func AppendOwner(b []byte, o *lifecycle.OwnerReference) []byte {
	b = wire.AppendBytes(b, ownerAPIVersion, o.APIVersion)
	b = wire.AppendBytes(b, ownerKind, o.Kind)
	b = wire.AppendBytes(b, ownerName, o.Name)
	b = wire.AppendBytes(b, ownerUID, string(o.UID))
	b = appendTernary(b, ownerController, o.Controller)
	return appendTernary(b, ownerBlocking, o.Blocking)
}

func ownerSize(o *lifecycle.OwnerReference) int {
	size := stringSize(o.APIVersion) + stringSize(o.Kind) + stringSize(o.Name) + stringSize(string(o.UID))
	if o.Controller != lifecycle.Unsaid {
		size += 2
	}
	if o.Blocking != lifecycle.Unsaid {
		size += 2
	}
	return size
}

func stringSize(s string) int {
	if s == "" {
		return 0
	}
	return 1 + protowire.SizeBytes(len(s))
}

func appendTernary(b []byte, field protowire.Number, t lifecycle.Ternary) []byte {
	if t == lifecycle.Unsaid {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, protowire.EncodeBool(t == lifecycle.True))
}

// UID returns the uid of the node whose encoding is b, or "" if b does not begin with a
// valid uid.
func UID(b []byte) uid.UID {
	r := wire.Read(b)
	if f, ok := r.Next(); ok && f.Number == nodeUID {
		if u := uid.UID(f.Bytes(b)); u.Valid() {
			return u
		}
	}
	return ""
}

// Decode decodes a node. It copies b once, and all strings of the node share that copy.
// It skips unknown fields.
func Decode(b []byte) (*lifecycle.Node, error) {
	var room struct { // most nodes have one owner
		node  lifecycle.Node
		owner [1]lifecycle.OwnerReference
	}
	at := &room
	at.node.Owners = at.owner[:0]
	if err := DecodeInto(&at.node, b, string(b)); err != nil {
		return nil, err
	}
	return &at.node, nil
}

// DecodeInto decodes into an existing node and overwrites the array of its Owners. s must
// be string(b); the strings of the node share its memory.
func DecodeInto(n *lifecycle.Node, b []byte, s string) error {
	owners := n.Owners[:0]
	*n = lifecycle.Node{}
	r := wire.Read(b)
	for f, ok := r.Next(); ok; f, ok = r.Next() {
		switch f.Number {
		case nodeUID:
			n.UID = uid.UID(f.String(s))
		case nodeAPIVersion:
			n.APIVersion = f.String(s)
		case nodeKind:
			n.Kind = f.String(s)
		case nodeNamespace:
			n.Namespace = f.String(s)
		case nodeName:
			n.Name = f.String(s)
		case nodeGeneration:
			n.Generation = int64(f.Value)
		case nodeCreationTime:
			n.CreationTime = lifecycle.Time(f.Value)
		case nodeOwners:
			o, err := DecodeOwner(f.Bytes(b), f.String(s))
			if err != nil {
				return fmt.Errorf("node: %w", err)
			}
			owners = append(owners, o)
			n.Owners = owners
		case nodeFinalizers:
			n.Finalizers = append(n.Finalizers, f.String(s))
		case nodeDeletionTime:
			n.DeletionTime = lifecycle.Time(f.Value)
		case nodeGracePeriod:
			n.GracePeriod = optional(f.Value)
		case nodeDeletionRevision:
			n.DeletionRevision = f.Value
		case nodeImportTime:
			n.ImportTime = lifecycle.Time(f.Value)
		case nodeImportSession:
			n.ImportSession = f.String(s)
		case nodeGrace:
			n.Grace = optional(f.Value)
		case nodeObserved:
			n.ObservedGeneration = int64(f.Value)
		case nodeAwaited:
			n.AwaitedGeneration = int64(f.Value)
		case nodeInitializers:
			n.Initializers = append(n.Initializers, f.String(s))
		case nodeFailed:
			n.InitializationFailed = protowire.DecodeBool(f.Value)
		case nodeUses:
			u, err := decodeUse(f.Bytes(b), f.String(s))
			if err != nil {
				return fmt.Errorf("node: %w", err)
			}
			n.Uses = append(n.Uses, u)
		case nodeExpiresAt:
			n.ExpiresAt = lifecycle.Time(f.Value)
		case nodeProtection:
			p, err := decodeProtection(f.Bytes(b), f.String(s))
			if err != nil {
				return fmt.Errorf("node: %w", err)
			}
			n.Protection = p
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if !n.UID.Valid() {
		return fmt.Errorf("node: %w", uid.ErrMalformed)
	}
	return nil
}

func decodeProtection(b []byte, s string) (*lifecycle.Protection, error) {
	p := &lifecycle.Protection{}
	r := wire.Read(b)
	for f, ok := r.Next(); ok; f, ok = r.Next() {
		switch f.Number {
		case protectionReason:
			p.Reason = f.String(s)
		case protectionActor:
			p.Actor = f.String(s)
		case protectionTime:
			p.Time = lifecycle.Time(f.Value)
		case protectionPolicies:
			p.Policies = append(p.Policies, f.String(s))
		}
	}
	return p, r.Err()
}

func optional(v uint64) *int64 {
	i := int64(v)
	return &i
}

// DecodeOwner decodes a NodeOwner from b. s must be string(b); the strings of the result
// share its memory.
func DecodeOwner(b []byte, s string) (o lifecycle.OwnerReference, err error) {
	r := wire.Read(b)
	for f, ok := r.Next(); ok; f, ok = r.Next() {
		switch f.Number {
		case ownerAPIVersion:
			o.APIVersion = f.String(s)
		case ownerKind:
			o.Kind = f.String(s)
		case ownerName:
			o.Name = f.String(s)
		case ownerUID:
			o.UID = uid.UID(f.String(s))
		case ownerController:
			o.Controller = ternary(f.Value)
		case ownerBlocking:
			o.Blocking = ternary(f.Value)
		}
	}
	return o, r.Err()
}

// decodeUse decodes a NodeUse from b. s must be string(b).
func decodeUse(b []byte, s string) (u lifecycle.Use, err error) {
	r := wire.Read(b)
	for f, ok := r.Next(); ok; f, ok = r.Next() {
		switch f.Number {
		case useGroup:
			u.Group = f.String(s)
		case useKind:
			u.Kind = f.String(s)
		case useName:
			u.Name = f.String(s)
		case useNamespace:
			u.Namespace = f.String(s)
		case useUID:
			u.UID = uid.UID(f.String(s))
		}
	}
	return u, r.Err()
}

func ternary(v uint64) lifecycle.Ternary {
	if protowire.DecodeBool(v) {
		return lifecycle.True
	}
	return lifecycle.False
}
