package plan

import (
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// JSON is a plan for programs.
type JSON struct {
	Revision uint64       `json:"revision"`
	Hash     string       `json:"hash"`
	Plan     string       `json:"plan"`
	Counts   countsJSON   `json:"counts"`
	Objects  []objectJSON `json:"objects"`
	// Elsewhere is the number of objects in other namespaces, or that the user may not get, which the plan does not name.
	Elsewhere uint32 `json:"elsewhere,omitempty"`
	// Cycles are the cycles in which a use is released.
	Cycles []string    `json:"cycles,omitempty"`
	Brakes []brakeJSON `json:"brakes,omitempty"`
	// Finalizers are those for which the plan waits, and how long they took lately. The hash does
	// not cover them.
	Finalizers []finalizerJSON `json:"finalizers,omitempty"`
}

type finalizerJSON struct {
	Name           string  `json:"name"`
	Removals       int     `json:"removals"`
	MedianSeconds  float64 `json:"medianSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

type brakeJSON struct {
	Resource  string `json:"resource"`
	Deletions uint64 `json:"deletions"`
	Room      uint64 `json:"room"`
}

type countsJSON struct {
	Removed      uint32 `json:"removed"`
	RemovedLater uint32 `json:"removedLater"`
	Blocked      uint32 `json:"blocked"`
	Orphaned     uint32 `json:"orphaned"`
	Stripped     uint32 `json:"stripped"`
	Kept         uint32 `json:"kept"`
	Protected    uint32 `json:"protected,omitempty"`
}

type objectJSON struct {
	Resource    string          `json:"resource"`
	Namespace   string          `json:"namespace,omitempty"`
	Name        string          `json:"name"`
	UID         string          `json:"uid"`
	Outcome     string          `json:"outcome"`
	Requested   bool            `json:"requested,omitempty"`
	Terminating bool            `json:"terminating,omitempty"`
	Because     string          `json:"because,omitempty"`
	References  []referenceJSON `json:"references,omitempty"`
	Blockers    []blockerJSON   `json:"blockers,omitempty"`
	// DependsOnOrder: the outcome is that of one order of processors' and
	// finalizers' work.
	DependsOnOrder bool `json:"dependsOnOrder,omitempty"`
	// ForegroundForUsers: the object is deleted in the foreground instead of in the
	// background, because others use it.
	ForegroundForUsers bool `json:"foregroundForUsers,omitempty"`
	// ExpiresAt is when the object expires, if the deletion leaves it.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Notice is the one of an expiry policy that ends first, if the deletion leaves the object.
	Notice *noticeJSON `json:"notice,omitempty"`
}

type noticeJSON struct {
	Policy string    `json:"policy"`
	Ends   time.Time `json:"ends"`
}

type referenceJSON struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type blockerJSON struct {
	Type  string     `json:"type"`
	Name  string     `json:"name,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	Count uint32     `json:"count,omitempty"`
}

// JSONOf returns a plan for programs, with how long the finalizers that it needs took lately.
func JSONOf(p *client.Plan, times []history.FinalizerTime) JSON {
	c := p.GetCounts()
	j := JSON{
		Revision: p.GetRevision(), Hash: p.GetHash(), Plan: p.GetPlan(), Cycles: p.GetCycles(), Elsewhere: p.GetElsewhere(),
		Counts: countsJSON{c.GetRemoved(), c.GetRemovedLater(), c.GetBlocked(), c.GetOrphaned(), c.GetStripped(), c.GetKept(), c.GetProtected()},
	}
	for _, b := range p.GetBrakes() {
		j.Brakes = append(j.Brakes, brakeJSON{b.GetResource(), b.GetDeletions(), b.GetRoom()})
	}
	for _, x := range times {
		j.Finalizers = append(j.Finalizers, finalizerJSON{x.Name, x.Removals, x.Median.Seconds(), x.Longest.Seconds()})
	}
	for _, o := range p.GetObjects() {
		as := objectJSON{
			Resource: o.GetResource(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUid(),
			Outcome: terminal.Camel(o.GetOutcome().String(), "PLAN_OUTCOME_"), Requested: o.GetRequested(), Terminating: o.GetTerminating(), Because: o.GetBecause(),
			DependsOnOrder: o.GetDependsOnOrder(), ForegroundForUsers: o.GetForegroundForUsers(),
		}
		for _, r := range o.GetReferences() {
			as.References = append(as.References, referenceJSON{r.GetApiVersion(), r.GetKind(), r.GetName(), r.GetUid()})
		}
		for _, h := range o.GetBlockers() {
			by := blockerJSON{Type: terminal.Camel(h.GetType().String(), "TYPE_"), Name: h.GetName(), Count: h.GetCount()}
			if h.GetUntil() != 0 {
				until := time.UnixMicro(h.GetUntil()).UTC()
				by.Until = &until
			}
			as.Blockers = append(as.Blockers, by)
		}
		if at := o.GetExpiresAt(); at != 0 {
			t := time.UnixMicro(at).UTC()
			as.ExpiresAt = &t
		}
		if policy := o.GetNoticePolicy(); policy != "" {
			as.Notice = &noticeJSON{policy, time.UnixMicro(o.GetNoticeEnds()).UTC()}
		}
		j.Objects = append(j.Objects, as)
	}
	return j
}
