package bus

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CoreAccount is the account of the log, of work and leases, and of the graph service. With `coppice up`
// without passwords the other services are in it, too, which run in the same process.
// Every other actor has an account of its own, with the actor's name, that imports the
// subjects to which the actor may publish. So a reply that a service in the core account
// publishes can reach the actor's inbox, and nothing in the core account.
const CoreAccount = "COPPICE"

// AnyRealm stands for every realm in the roles of deployments. With it a realm that is
// created later needs no change of the NATS server's configuration.
const AnyRealm = "*"

// Service is a subject of the core account that other accounts import.
type Service struct {
	Subject string
	// Accounts are the accounts that import it, in order.
	Accounts []string
	// Stream: the reply to a request is a stream of messages.
	Stream bool
	// Threshold is the maximum time until the reply; zero for the server's default of two
	// minutes.
	Threshold time.Duration
}

// Core returns the roles of the core account.
func Core(roles []Role) []Role {
	return slices.DeleteFunc(slices.Clone(roles), func(r Role) bool { return !r.Core })
}

// Actors returns the roles that have accounts of their own.
func Actors(roles []Role) []Role {
	return slices.DeleteFunc(slices.Clone(roles), func(r Role) bool { return r.Core })
}

// jetStreamInfo is imported by every account without JetStream. Without this import the
// server lets the account import all of the system's `$JS.API`, and replies that JetStream
// is not enabled.
const jetStreamInfo = "$JS.API.INFO"

// Services returns what the core account exports to the roles with accounts of their own,
// ordered by subject. Two subjects are either equal or disjoint, because the server
// evaluates overlapping ones in no defined order. Those of LocalUser also match those of other actors, which
// is safe because the server looks an import up by its text before it looks for patterns that match it.
//
// It returns an error if a role may publish what must not be exported: above all
// requests that create consumers, whose deliver subject is in the body, where no
// permission can check it.
func Services(roles []Role) ([]Service, error) {
	of := map[string]*Service{}
	spelled := map[string]string{} // as in the variables of passwords
	for _, r := range roles {
		key := strings.ToUpper(strings.ReplaceAll(r.Name, "_", "-"))
		other, taken := spelled[key]
		if taken && other == r.Name {
			return nil, fmt.Errorf("the name %q is taken: each actor has an account of its own, of its name", r.Name)
		}
		if taken {
			return nil, fmt.Errorf("the names %q and %q are too much alike: each user has a password variable of its own, without case, hyphens and underscores", other, r.Name)
		}
		spelled[key] = r.Name
	}
	for _, r := range Actors(roles) {
		if err := CheckActor(r.Name); err != nil {
			return nil, err
		}
		if r.Name == CoreAccount {
			return nil, fmt.Errorf("the name %q is taken: each actor has an account of its own, of its name", r.Name)
		}
		for _, subject := range r.Imports() {
			if !exportable(subject) && (r.Name != LocalUser || !ofLocal(subject)) {
				return nil, fmt.Errorf("the role %q may publish to %s: the core account must not export it, as a client could exceed its permissions there; take it from the role, or give the role a user in the account %s", r.Name, subject, CoreAccount)
			}
			s := of[subject]
			if s == nil {
				s = &Service{Subject: subject, Stream: isStream(subject), Threshold: threshold(subject)}
				of[subject] = s
			}
			s.Accounts = append(s.Accounts, r.Account())
		}
	}
	list := make([]Service, 0, len(of))
	for _, s := range of {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Service) int { return strings.Compare(a.Subject, b.Subject) })
	return list, nil
}

// Imports returns the subjects that the account of a role imports: those to which the role
// may publish, in every realm.
func (r *Role) Imports() []string {
	list := []string{jetStreamInfo}
	for _, s := range r.Publish {
		if r.OfFile {
			s = everyTarget(s)
		}
		list = append(list, inEveryRealm(s))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// everyTarget widens the pattern of a request of the object API to all that it may be about. Other patterns stay.
func everyTarget(pattern string) string {
	t := strings.Split(pattern, ".")
	if len(t) < 8 || t[0] != root || t[2] != "api" {
		return pattern
	}
	wide := strings.Join(append(t[:5:5], "*", "*", "*"), ".")
	if NamesFinalizer(t[4]) {
		wide += ".>"
	}
	return wide
}

// Feeds returns the subjects of the core account whose messages the account of a role receives: those to
// which the role may subscribe in addition to its inboxes.
func (r *Role) Feeds() []string {
	return slices.DeleteFunc(slices.Clone(r.Subscribe), func(s string) bool { return strings.HasPrefix(s, "_INBOX.") })
}

// inEveryRealm widens a pattern of one realm to all realms. The name of a stream has the
// realm's name inside a token, so that the pattern becomes that of any stream. A pattern
// of SystemRealm stays.
func inEveryRealm(pattern string) string {
	t := strings.Split(pattern, ".")
	if t[0] == root && len(t) > 1 && t[1] != SystemRealm {
		t[1] = "*"
	}
	for i := range t {
		if strings.HasPrefix(t[i], root+"-") {
			t[i] = "*"
		}
	}
	return strings.Join(t, ".")
}

// ofLocal reports whether the account of the local user, and no other, may publish to a subject: it finds
// services, and pulls from and acknowledges to the consumers of all streams but those that its role denies.
func ofLocal(subject string) bool {
	return subject == services || subject == PullSubject("*", "*") || subject == "$JS.ACK.*"+ackOfAny
}

// exportable reports whether other accounts may publish to a subject at all:
// the API, the operations, parked work, the scanner's chunks, and the subjects of
// JetStream whose bodies name no other subject.
func exportable(subject string) bool {
	if subject == jetStreamInfo || subject == under("*", "work."+QueueDirty) {
		return true
	}
	for _, prefix := range []string{
		under("*", "api."), under("*", "internal."), under("*", "parked."), under(SystemRealm, "api."), under(SystemRealm, "internal."),
		"$JS.API.STREAM.INFO.", "$JS.API.CONSUMER.MSG.NEXT.", "$JS.ACK.",
	} {
		rest, ok := strings.CutPrefix(subject, prefix)
		if !ok {
			continue
		}
		if t := strings.Split(rest, "."); strings.HasPrefix(prefix, "$JS") && prefix != "$JS.API.STREAM.INFO." {
			return len(t) > 1 && t[1] != "*" && t[1] != ">" // the consumer's name is exact
		}
		return rest != ">"
	}
	return false
}

// isStream reports whether the reply to a request on a subject is a stream.
func isStream(subject string) bool {
	return subject == services || strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") || IsStream(RequestName(subject))
}

// threshold returns the maximum time until the reply to a request on a subject, zero for
// the server's default.
func threshold(subject string) time.Duration {
	if RequestName(subject) == OpCycles {
		return CyclesTimeout
	}
	return 0
}
