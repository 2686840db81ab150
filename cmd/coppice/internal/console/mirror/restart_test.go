package mirror

import (
	"testing"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const (
	ownerUID     = "01a22a6f-81da-7b6b-ba14-ec9ae71262d5"
	dependentUID = "01a22a6f-81da-7b6b-ba14-ec9ae71262d6"
)

// putOf returns the change that puts an object at a version, with an owner unless that is nil.
func putOf(uid, resource, kind, namespace, name string, version uint64, owner *coppicev1.Object) Change {
	o := &coppicev1.Object{ApiVersion: "v1", Kind: kind, Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: namespace, Uid: uid, ResourceVersion: version}}
	if owner != nil {
		is := owner.GetMetadata()
		o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: is.GetName(), Uid: is.GetUid()}}
	}
	return Change{Op: Put, Resource: resource, Object: o, Revision: version}
}

// A realm that was deleted and created again has lower revisions. An object that was imported with the uid and the version
// of an old one is as the new realm has it.
func TestOtherRealm(t *testing.T) {
	t.Parallel()
	m := New(time.Now)
	owner := putOf(ownerUID, "configmaps", "ConfigMap", "shop", "owner", 5, nil)
	m.Apply(owner, putOf(dependentUID, "pods", "Pod", "shop", "a", 67, owner.Object), Change{Op: Synced, Revision: 66}, Change{Op: Reached, Revision: 67})
	if m.Revision() != 67 {
		t.Fatalf("revision %d, want 67", m.Revision())
	}
	m.Apply(Change{Op: Restart}, putOf(ownerUID, "secrets", "Secret", "other", "new", 5, nil))
	if m.Revision() != 67 {
		t.Errorf("revision %d before all objects are read, want 67", m.Revision())
	}
	m.Apply(Change{Op: Synced, Revision: 6})
	if m.Revision() != 6 || m.Objects() != 1 {
		t.Errorf("revision %d, %d objects; want 6, 1", m.Revision(), m.Objects())
	}
	m.Apply(Change{Op: Restart, Revision: 6}, putOf(ownerUID, "secrets", "Secret", "other", "new", 5, owner.Object), Change{Op: Synced, Revision: 7})
	f, _ := m.Family(ownerUID, 0, 1)
	if f.Revision != 7 || f.Self.Resource != "secrets" || f.Self.Namespace != "other" || f.Self.Name != "new" || len(f.Owners) != 1 {
		t.Errorf("family %+v", f)
	}
	if old, now := m.Search("owner", 9), m.Search("other/new", 9); len(old.Matches) != 0 || len(now.Matches) != 1 {
		t.Errorf("found %+v by the old name, %+v by the new one", old.Matches, now.Matches)
	}
}

// An owner that the user may not see any more, or whose removal was missed, is unknown. Nothing is shown as garbage because
// of it, and its deletion ends, unless dependents are being deleted themselves.
func TestVanishedOwner(t *testing.T) {
	t.Parallel()
	m := New(time.Now)
	owner := putOf(ownerUID, "configmaps", "ConfigMap", "shop", "owner", 1, nil)
	dependent := putOf(dependentUID, "pods", "Pod", "shop", "a", 2, owner.Object)
	m.Apply(owner, dependent, Change{Op: Synced}, Change{Op: Restart}, dependent, Change{Op: Synced})
	if _, total := m.Deletions(9); m.Garbage(1).Total != 0 || m.UnknownOwners(1).Total != 1 || total != 0 || m.State(dependentUID) != UnknownOwner {
		t.Errorf("garbage %+v, unknown owners %+v, %d deletions, state %s", m.Garbage(1), m.UnknownOwners(1), total, m.State(dependentUID))
	}
	if r := m.UnknownOwners(1).Oldest[0]; r.Name != "a" {
		t.Errorf("unknown owner of %+v", r)
	}
	m.Apply(Change{Op: Remove, Resource: owner.Resource, Object: owner.Object})
	if _, total := m.Deletions(9); m.Garbage(1).Total != 1 || total != 1 {
		t.Errorf("garbage %+v, %d deletions after the removal of the owner was seen", m.Garbage(1), total)
	}
	m.Apply(Change{Op: Restart}, Change{Op: Synced})
	if list, total := m.Deletions(9); total != 0 || len(m.index) != 0 {
		t.Errorf("deletions %+v, %d objects known, after all objects have vanished", list, len(m.index))
	}
}
