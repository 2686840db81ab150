package main

import (
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

// planJSON is a plan for programs.
type planJSON struct {
	Revision uint64              `json:"revision"`
	Hash     string              `json:"hash"`
	Plan     string              `json:"plan"`
	Counts   planCountsJSON      `json:"counts"`
	Objects  []plannedObjectJSON `json:"objects"`
}

type planCountsJSON struct {
	Removed      uint32 `json:"removed"`
	RemovedLater uint32 `json:"removedLater"`
	Blocked      uint32 `json:"blocked"`
	Orphaned     uint32 `json:"orphaned"`
	Stripped     uint32 `json:"stripped"`
	Kept         uint32 `json:"kept"`
}

type plannedObjectJSON struct {
	Resource    string            `json:"resource"`
	Namespace   string            `json:"namespace,omitempty"`
	Name        string            `json:"name"`
	UID         string            `json:"uid"`
	Outcome     string            `json:"outcome"`
	Requested   bool              `json:"requested,omitempty"`
	Terminating bool              `json:"terminating,omitempty"`
	Because     string            `json:"because,omitempty"`
	References  []referenceJSON   `json:"references,omitempty"`
	Blockers    []planBlockerJSON `json:"blockers,omitempty"`
	// DependsOnOrder: the outcome is that of one order of processors' and
	// finalizers' work.
	DependsOnOrder bool `json:"dependsOnOrder,omitempty"`
}

type referenceJSON struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type planBlockerJSON struct {
	Type  string     `json:"type"`
	Name  string     `json:"name,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	Count uint32     `json:"count,omitempty"`
}

func planJSONOf(p *client.Plan) planJSON {
	c := p.GetCounts()
	j := planJSON{
		Revision: p.GetRevision(), Hash: p.GetHash(), Plan: p.GetPlan(),
		Counts: planCountsJSON{c.GetRemoved(), c.GetRemovedLater(), c.GetBlocked(), c.GetOrphaned(), c.GetStripped(), c.GetKept()},
	}
	for _, o := range p.GetObjects() {
		as := plannedObjectJSON{
			Resource: o.GetResource(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUid(),
			Outcome: console.Camel(o.GetOutcome().String(), "PLAN_OUTCOME_"), Requested: o.GetRequested(), Terminating: o.GetTerminating(), Because: o.GetBecause(),
			DependsOnOrder: o.GetDependsOnOrder(),
		}
		for _, r := range o.GetReferences() {
			as.References = append(as.References, referenceJSON{r.GetApiVersion(), r.GetKind(), r.GetName(), r.GetUid()})
		}
		for _, h := range o.GetBlockers() {
			by := planBlockerJSON{Type: console.Camel(h.GetType().String(), "TYPE_"), Name: h.GetName(), Count: h.GetCount()}
			if h.GetUntil() != 0 {
				until := time.UnixMicro(h.GetUntil()).UTC()
				by.Until = &until
			}
			as.Blockers = append(as.Blockers, by)
		}
		j.Objects = append(j.Objects, as)
	}
	return j
}
