// Package lifecycletest draws commands and families of objects for tests of the rules, in
// a realm in memory. It is for one goroutine.
package lifecycletest

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Realm is a memrealm.Realm for which RandomCommand draws commands.
type Realm struct {
	*memrealm.Realm
	// Latecomers lets RandomCommand register a kind that references have
	// named before.
	Latecomers bool
	// Restless lets RandomCommand change the realm settings.
	Restless bool
	// Containers lets RandomCommand create Namespace objects, and delete the kind that
	// Latecomers registers.
	Containers bool
	// Using lets objects use others.
	Using bool
	// Protecting lets RandomCommand protect and unprotect objects.
	Protecting bool
}

// Job is memrealm.Job.
type Job = memrealm.Job

// Order is memrealm.Order.
type Order = memrealm.Order

// Start is the time of a new realm's clock.
var Start = memrealm.Start

// New returns a realm with the built-in kinds.
func New() *Realm { return &Realm{Realm: memrealm.New()} }

// Clone returns a copy of the realm.
func (r *Realm) Clone() *Realm {
	c := *r
	c.Realm = r.Realm.Clone()
	return &c
}

// InOrder is memrealm.InOrder.
func InOrder(n int) []int { return memrealm.InOrder(n) }

// Shuffled is memrealm.Shuffled.
func Shuffled(seed uint64) Order { return memrealm.Shuffled(seed) }

// Registration is memrealm.Registration.
func Registration(spec lifecycle.KindSpec) *coppicev1.Object { return memrealm.Registration(spec) }

// SettingsObject is memrealm.SettingsObject.
func SettingsObject(spec lifecycle.SettingsSpec) *coppicev1.Object {
	return memrealm.SettingsObject(spec)
}
