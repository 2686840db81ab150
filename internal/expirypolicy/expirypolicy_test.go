package expirypolicy_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// B6.5: the error for an invalid policy names the field.
func TestParse(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`{"minAge":"1h"}`:                                 "spec.kind: ",
		`{"kind":"Pod"}`:                                  "so that it does not delete every object",
		`{"kind":"Pod","minAge":"3 days"}`:                `spec.minAge: "3 days" is not a duration`,
		`{"kind":"Pod","minAge":"-1h"}`:                   `spec.minAge: "-1h" is not a duration`,
		`{"kind":"Pod","minUnchanged":"x"}`:               `spec.minUnchanged: `,
		`{"kind":"Pod","minAge":"1h","selector":"a=b=c"}`: "spec.selector: ",
		`{"kind":"Pod","minAge":"1h","selector":" "}`:     "spec.selector: label selector \" \": it has only blanks",
		`{"kind":"Pod","condition":"object.spec."}`:       "spec.condition: ",
		`{"kind":"Pod","condition":"1 + 1"}`:              "spec.condition: it is int, not true or false",
		`{"kind":"Pod","condition":"nobody"}`:             "undeclared reference",
		// 40 of these would compare 2^40 elements.
		`{"kind":"Pod","condition":"[[1]].exists(a, [a+a].exists(b, [b+b].exists(c, 2 in c)))"}`:   "it may join lists",
		`{"kind":"Pod","condition":"[1].exists(a, [[a,a]].exists(b, [[b,b]].exists(c, c == c)))"}`: "it makes a list or a map of something else than constants",
		`{"kind":"Pod","condition":"{'a': object} == {'a': object}"}`:                              "it makes a list or a map of something else than constants",
		`{"kind":"Pod","condition":"object.spec.l.map(x, x) == object.spec.l"}`:                    "use all and exists instead of map and filter",
		`{"kind":"Pod","minAge":"1h","call":"example.com/keeper"}`:                                 "spec.call: only a policy with a notice",
		`{"kind":"Pod","minAge":"1h","notice":"1h","call":"no spaces"}`:                            `spec.call: "no spaces" is not a qualified name`,
		`{"kind":"Pod","minAges":"1h"}`:                                                            "unknown field",
		`{"group":"coppice.dev","kind":"Kind","minAge":"1h"}`:                                      "do not expire by a policy",
	} {
		if _, err := expirypolicy.Parse([]byte(spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// B6.5: an object is due when all members of the policy apply, and never if the condition has no result.
func TestMatches(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	object := func(age time.Duration, labels map[string]string, spec string) *coppicev1.Object {
		return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Spec: []byte(spec), Metadata: &coppicev1.ObjectMeta{
			Name: "a", Labels: labels, CreationTimestamp: timestamppb.New(now.Add(-age)),
		}}
	}
	preview := map[string]string{"env": "preview"}
	dying := object(48*time.Hour, preview, `{}`)
	dying.Metadata.DeletionTimestamp = timestamppb.New(now)
	for _, c := range []struct {
		name, spec string
		o          *coppicev1.Object
		want       bool
		fails      string
	}{
		{"old enough", `{"kind":"ConfigMap","selector":"env=preview","minAge":"24h"}`, object(25*time.Hour, preview, `{}`), true, ""},
		{"a second early", `{"kind":"ConfigMap","minAge":"24h"}`, object(24*time.Hour, preview, `{}`), false, ""},
		{"just old enough", `{"kind":"ConfigMap","minAge":"24h"}`, object(24*time.Hour+time.Second, preview, `{}`), true, ""},
		{"other labels", `{"kind":"ConfigMap","selector":"env=preview","minAge":"24h"}`, object(48*time.Hour, nil, `{}`), false, ""},
		{"being deleted", `{"kind":"ConfigMap","minAge":"24h"}`, dying, false, ""},
		{"condition", `{"kind":"ConfigMap","condition":"object.spec.replicas == 0"}`, object(0, nil, `{"replicas":0}`), true, ""},
		{"condition not true", `{"kind":"ConfigMap","condition":"object.spec.replicas == 0"}`, object(0, nil, `{"replicas":1}`), false, ""},
		{"condition with time", `{"kind":"ConfigMap","condition":"now - timestamp(object.metadata.creationTimestamp) > duration('1h')"}`, object(2*time.Hour, nil, `{}`), true, ""},
		{"condition with a list", `{"kind":"ConfigMap","condition":"object.spec.env in ['a', 'b'] && int(object.spec.n) + 1 == 2"}`, object(0, nil, `{"env":"b","n":1}`), true, ""},
		{"no such member", `{"kind":"ConfigMap","condition":"object.spec.replicas == 0"}`, object(0, nil, `{}`), false, "no such key: replicas"},
		{"no boolean", `{"kind":"ConfigMap","condition":"object.spec.replicas"}`, object(0, nil, `{"replicas":1}`), false, "not true or false"},
		{"too expensive", `{"kind":"ConfigMap","condition":"object.spec.l.all(a, object.spec.l.all(b, object.spec.l.all(c, a == b || b <= c || c < a)))"}`,
			object(0, nil, `{"l":[`+strings.Repeat("1,", 99)+`1]}`), false, "cost limit exceeded"},
	} {
		p, err := expirypolicy.Parse([]byte(c.spec))
		must.Succeed(t, err)
		got, err := p.Matches(c.o, now)
		if got != c.want || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %t, %v, want %t and the error %q", c.name, got, err, c.want, c.fails)
		}
	}
}
