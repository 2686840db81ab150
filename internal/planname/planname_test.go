package planname_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const hash = "0123456789abcdef"

func options(policy string) *coppicev1.DeleteOptions {
	return &coppicev1.DeleteOptions{PropagationPolicy: policy}
}

func grace(policy string, seconds int64) *coppicev1.DeleteOptions {
	return &coppicev1.DeleteOptions{PropagationPolicy: policy, GracePeriodSeconds: &seconds}
}

// parts are the requests of a deletion with these options.
func parts(list ...*coppicev1.DeleteOptions) (requests []*coppicev1.DeleteRequest) {
	for _, o := range list {
		requests = append(requests, &coppicev1.DeleteRequest{Options: o})
	}
	return requests
}

// A name says the options of the deletion.
func TestOf(t *testing.T) {
	t.Parallel()
	same := options("")
	same.Preconditions = &coppicev1.Preconditions{}
	for want, of := range map[string][]*coppicev1.DeleteRequest{
		"default":               parts(nil),
		"background":            parts(options(lifecycle.Background), &coppicev1.DeleteOptions{OrphanDependents: proto.Bool(false)}),
		"orphan":                parts(&coppicev1.DeleteOptions{OrphanDependents: proto.Bool(true)}),
		"foreground-grace30":    parts(grace(lifecycle.Foreground, 30), grace(lifecycle.Foreground, 30)),
		"default-grace0":        parts(grace("", 0)),
		"default-grace1":        parts(grace("", -5)), // A4.5
		"default-":              parts(same, &coppicev1.DeleteOptions{DryRun: []string{"All"}}),
		"mixed-with":            parts(options(lifecycle.Foreground), options("")),
		"mixed-with7":           parts(grace("", 0), options("")),
		"foreground-with":       parts(&coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Foreground, Preconditions: &coppicev1.Preconditions{Uid: "u"}}),
		"orphan-grace5-with":    parts(&coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Orphan, GracePeriodSeconds: proto.Int64(5), Preconditions: &coppicev1.Preconditions{ResourceVersion: 3}}),
		"background-with":       {{Options: options(lifecycle.Background), Version: "v1"}},
		"mixed-witha":           parts(options(""), options(lifecycle.Orphan), options(""), options(lifecycle.Orphan)),
		"unprotect-" + hash[:1]: nil,
	} {
		o := planname.Of(of...)
		if of == nil {
			o = planname.OfUnprotect(&coppicev1.DeleteRequest{Options: options(lifecycle.Foreground)})
		}
		got := planname.Name{Options: o, Hash: hash}.String()
		if !strings.HasPrefix(got, want) || strings.Contains(got, "with") != strings.Contains(want, "with") {
			t.Errorf("%v is named %s, want %s", of, got, want)
		}
	}
	one, other := planname.Of(parts(options(""), options(lifecycle.Orphan))...), planname.Of(parts(options(lifecycle.Orphan), options(""))...)
	if one != other {
		t.Errorf("in another order the options are %v, were %v", other, one)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"foreground-" + hash, "default-" + hash + "@17", "orphan-grace30-" + hash + "@17", "mixed-with01234567-" + hash, "background-grace0-withabcdef01-" + hash + "@1", "unprotect-" + hash} {
		if n, err := planname.Parse(good); err != nil || n.String() != good {
			t.Errorf("%q is read as %q, %v", good, n, err)
		}
	}
	for _, bad := range []string{
		"", "@", "-", "foreground", "foreground-", hash, hash + "@17", "foreground-0123", "Foreground-" + hash, "sideways-" + hash,
		"foreground-" + hash + "@", "foreground-" + hash + "@-1", "foreground-" + hash + "@01", "foreground-" + strings.ToUpper(hash), "foreground-0123456789abcdeg",
		"foreground-grace-" + hash, "foreground-grace05-" + hash, "foreground-grace-5-" + hash, "foreground-with-" + hash, "foreground-with0123456-" + hash,
		"foreground-with01234567-grace5-" + hash, "foreground-grace5-grace5-" + hash, "foreground-more-" + hash, "foreground-" + hash + "@1@2",
	} {
		if n, err := planname.Parse(bad); err == nil {
			t.Errorf("%q is read as %q", bad, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "@", hash, "foreground-" + hash + "@17", "mixed-grace5-with01234567-" + hash + "@", "orphan-grace-1-" + hash} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := planname.Parse(s)
		if err != nil {
			return
		}
		if again, err := planname.Parse(n.String()); err != nil || again != n || n.String() != s {
			t.Errorf("%q is read as %v, which is read as %v, %v", s, n, again, err)
		}
	})
}

// A request with other options than those that were planned is refused, and the error names each.
func TestCheck(t *testing.T) {
	t.Parallel()
	uid := grace(lifecycle.Foreground, 5)
	uid.Preconditions = &coppicev1.Preconditions{Uid: "u"}
	for _, c := range []struct {
		plan string
		of   []*coppicev1.DeleteRequest
		want string // empty if it is accepted
	}{
		{"foreground-grace5-" + hash, parts(grace(lifecycle.Foreground, 5)), ""},
		{"default-" + hash, parts(nil, options("")), ""},
		{"foreground-" + hash, parts(options("")), "propagationPolicy is not given, and Foreground was planned; nothing was done: send the options that were planned, or plan again"},
		{"default-" + hash, parts(options(lifecycle.Background)), "propagationPolicy is Background, and not given was planned"},
		{"foreground-grace5-" + hash, parts(grace(lifecycle.Orphan, 0)), "propagationPolicy is Orphan, and Foreground was planned; gracePeriodSeconds is 0, and 5 was planned"},
		{"foreground-grace5-" + hash, parts(options(lifecycle.Foreground)), "gracePeriodSeconds is not given, and 5 was planned"},
		{"foreground-" + hash, parts(grace(lifecycle.Foreground, 0)), "gracePeriodSeconds is 0, and not given was planned"},
		{"foreground-grace5-" + hash, parts(uid), "is not what foreground-grace5-" + hash + " plans: preconditions, the version, or options of parts are not those that were planned"},
		{"foreground-" + hash, parts(options(lifecycle.Foreground), options("")), "propagationPolicy is different in parts, and Foreground was planned"},
		{"unprotect-" + hash, parts(nil), "propagationPolicy is not given, and the removal of protections was planned"},
		{hash, parts(nil), "is not the name of a plan"},
	} {
		_, err := planname.Check(c.plan, c.of...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Reason != api.ErrBadRequest || !strings.Contains(err.Message, c.want)) {
			t.Errorf("%s with %v: %v, want %q", c.plan, c.of, err, c.want)
		}
	}
}
