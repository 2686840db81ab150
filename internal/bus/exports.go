package bus

import (
	"slices"
	"strings"
)

// Exports returns what the core account exports where an account imports a part of an export, by a token that
// names the part: see package natsjwt. They are those of Services without actors: the subject of each contains
// that of every Service of its verb, operation or type of JetStream request. They do not depend on who
// the actors are, so that the core account stays as it is when an actor is added. Two of them are disjoint.
func Exports(roles []Role) ([]Service, error) {
	services, err := Services(roles)
	if err != nil {
		return nil, err
	}
	always, err := Services(append(Roles(AnyRealm), BenchRole(AnyRealm)))
	if err != nil {
		return nil, err
	}
	var list []Service
	for _, s := range append(always, services...) {
		s.Subject, s.Accounts = ofEveryActor(s.Subject), nil
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Service) int { return strings.Compare(a.Subject, b.Subject) })
	return slices.CompactFunc(list, func(a, b Service) bool { return a.Subject == b.Subject }), nil
}

// ofEveryActor returns the export that contains a subject which an account imports.
func ofEveryActor(subject string) string {
	if a, err := ParseAPI(subject); err == nil {
		return APIPattern(a.Realm, a.Verb)
	}
	for prefix, wide := range map[string]string{
		"$JS.API.CONSUMER.MSG.NEXT.": PullSubject("*", "*"),
		"$JS.ACK.":                   AckSubjects("*", "*"),
		under("*", "parked."):        under("*", "parked.>"),
	} {
		if strings.HasPrefix(subject, prefix) {
			return wide
		}
	}
	return subject
}
