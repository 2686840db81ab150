package model_test

import (
	"encoding/json"
	"strings"
	"time"
)

// Expiry (B6).

// actorExpiry deletes what has expired; followed by ":" and its name, an expiry policy does.
const actorExpiry = "expiry"

func expiring(actor string) bool {
	return actor == actorExpiry || strings.HasPrefix(actor, actorExpiry+":")
}

func isExpiryPolicy(o *object) bool { return o.group == "coppice.dev" && o.kind == "ExpiryPolicy" }

// due returns the time at which an expiry policy applies to an object, and whether it does at
// all (B6.5).
func due(policy, o *object) (at int64, applies bool) {
	var p struct {
		Group, Kind, Selector, MinAge, MinUnchanged string
		ReportOnly                                  bool
	}
	if err := json.Unmarshal([]byte(policy.spec), &p); err != nil {
		panic(err)
	}
	if p.ReportOnly || policy.terminating() || p.Group != o.group || p.Kind != o.kind || !labelled(o, p.Selector) {
		return 0, false
	}
	for since, length := range map[int64]string{o.created: p.MinAge, o.changed: p.MinUnchanged} {
		if length == "" {
			continue
		}
		d, err := time.ParseDuration(length)
		if err != nil {
			panic(err)
		}
		at = max(at, since+d.Microseconds())
	}
	return at, true
}

// expired checks the deletion of an object that has expired (B6.2 to B6.6).
func (a *auditor) expired(actor string, e *step, o *object, now int64) {
	m, tag := a.m, tagOf(o)
	at, applies := o.expires, o.expires != 0
	if name, ok := strings.CutPrefix(actor, actorExpiry+":"); ok {
		policy := m.at(place{"coppice.dev", "ExpiryPolicy", "", name})
		if policy == nil {
			a.violation(tag, "B6.6: %v was deleted by the expiry policy %s, which is not there", o, name)
			return
		}
		at, applies = due(policy, o)
	}
	switch {
	case !applies || at > now:
		a.violation(tag, "B6.2: %v was deleted by %s, %t, at %d, before %d", o, actor, applies, now, at)
	case o.terminating():
		a.violation(tag, "B6.2: %v expired while it was being deleted", o)
	default:
		a.expect(e, m.deletion(o, "", o.version, nil, now), "B6.3")
	}
	a.events["expired by "+strings.Split(actor, ":")[0]+map[bool]string{true: " policy"}[actor != actorExpiry]]++
}

// expiries calls add for each object that has expired, and returns the time at which the next
// one does, 0 if none does.
func (m *model) expiries(now int64, add func(o *object, effects []effect)) (next int64) {
	for _, o := range m.objects {
		times := []int64{o.expires}
		for uid := range m.policies {
			if p := m.objects[uid]; isExpiryPolicy(p) {
				if at, applies := due(p, o); applies {
					times = append(times, at)
				}
			}
		}
		for _, at := range times {
			switch {
			case at == 0 || o.terminating() || o.protected(): // B6.2, B6.4
			case at <= now:
				add(o, m.deletion(o, "", o.version, nil, now))
			case next == 0 || at < next:
				next = at
			}
		}
	}
	return next
}

// expiry reads a time of a script.
func expiry(word string, now int64) int64 {
	switch word {
	case "past":
		return 1_600_000_000_000_000
	case "soon":
		return (now/1e6 + 1) * 1e6
	case "late":
		return (now/1e6 + 3600) * 1e6
	}
	return 0
}
