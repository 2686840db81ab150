package objects

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/secret"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// The subject of a request carries the permission for one resource in one namespace, and the NATS
// server checks it. A request about several has a grant for each of the others: the reply to a
// request that the same actor sent to the subject of the same verb for that resource and namespace.
// Every graph service of the installation can check it, and none keeps it.

// grantTime is how long a grant is valid.
const grantTime = 2 * time.Minute

// grantSize is the size of a grant in bytes: the number of the secret, when the grant ends in Unix
// milliseconds, and the authentication code.
const grantSize = 4 + 8 + sha256.Size

// Grants gives and checks grants in one realm. It is safe for concurrent use.
type Grants struct {
	secrets secret.Secrets
	realm   string
	id      func() [16]byte
}

// NewGrants returns the grants whose keys are derived from secrets. id returns the id of the realm,
// so that a grant does not outlive the realm that was deleted and created again under its name.
func NewGrants(secrets secret.Secrets, realm string, id func() [16]byte) *Grants {
	return &Grants{secrets, realm, id}
}

// ownGrants returns grants that no other service accepts.
func ownGrants(realm string) *Grants {
	return NewGrants(secret.Secrets{}.Draw(), realm, func() (none [16]byte) { return none })
}

// granted is what a grant allows, and for which plan.
type granted struct{ actor, verb, resource, namespace, plan string }

// code returns the authentication code of the beginning of a grant, nil if there is no such secret.
func (g *Grants) code(begin []byte, of granted) []byte {
	key, ok := g.secrets.GrantKey(binary.BigEndian.Uint32(begin), g.realm, g.id())
	if !ok {
		return nil
	}
	mac := hmac.New(sha256.New, key[:])
	_, _ = mac.Write(begin) // a hash never fails
	_, _ = fmt.Fprintf(mac, "%q", []string{of.actor, of.verb, of.resource, of.namespace, of.plan})
	return mac.Sum(nil)
}

// give returns a grant to the actor of a request for what its subject names.
func (g *Grants) give(at bus.API, plan string, now time.Time) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, grantSize), g.secrets.Newest())
	b = binary.BigEndian.AppendUint64(b, uint64(now.Add(grantTime).UnixMilli()))
	return append(b, g.code(b, granted{at.Actor, at.Verb, serve.Resource(at), at.Namespace, plan})...)
}

// valid reports whether a grant allows something at a time. Grants by an older secret are not valid:
// an operator adds a secret when others may know the old one.
func (g *Grants) valid(grant []byte, of granted, now time.Time) bool {
	if len(grant) != grantSize {
		return false
	}
	begin, code := grant[:grantSize-sha256.Size], grant[grantSize-sha256.Size:]
	if binary.BigEndian.Uint32(begin) < g.secrets.Newest() {
		return false
	}
	want := g.code(begin, of)
	return want != nil && hmac.Equal(code, want) && uint64(now.UnixMilli()) <= binary.BigEndian.Uint64(begin[4:])
}

// covers returns an error unless each part of a deletion has a grant for the verb of the request.
func (g *Grants) covers(at bus.API, r *coppicev1.DeleteRequest, plan string, now time.Time) *lifecycle.Error {
	for i, part := range r.GetAlso() {
		if g.valid(part.GetGrant(), granted{at.Actor, at.Verb, part.GetResource(), part.GetNamespace(), plan}, now) {
			continue
		}
		where := part.GetResource()
		if ns := part.GetNamespace(); ns != "" {
			where += " in namespace " + ns
		}
		field := fmt.Sprintf("also[%d].grant", i)
		return &lifecycle.Error{
			Reason: api.ErrForbidden, Resource: part.GetResource(), Namespace: part.GetNamespace(),
			Message: fmt.Sprintf("%s: the request has no valid grant to %s %s: it is missing, has ended, or is for something else; nothing was done: "+
				"ask for one with askGrant, by a %s request for %s, which needs that permission", field, at.Verb, where, at.Verb, where),
			Causes: []lifecycle.Cause{{Reason: api.CauseGrantInvalid, Field: field, Message: "not a valid grant to " + at.Verb + " " + where}},
		}
	}
	return nil
}

// checkAsk returns an error if a request for a grant has other fields than it may have.
func checkAsk(want, got proto.Message) *lifecycle.Error {
	if proto.Equal(want, got) {
		return nil
	}
	return lifecycle.ErrBadRequest("askGrant: a request for a grant names no objects and has no options: leave out everything except protocol and, in a DeleteRequest, plan")
}
