package client_test

import (
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A word means one kind: exact names have precedence over short names, and a name that several
// kinds have is refused. An empty singular is no name.
func TestFindKind(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.Client
	for _, k := range []client.Kind{
		{Group: "storage.example.com", Kind: "Bucket", Plural: "buckets"},
		{Group: "example.com", Kind: "Limit", Plural: "limits"}, // the short name of limitranges
		{Group: "a.example.com", Kind: "Cluster", Plural: "clusters", Singular: "cluster", ShortNames: []string{"cl", "one"}},
		{Group: "b.example.com", Kind: "Cluster", Plural: "clusters", ShortNames: []string{"cl", "quota"}},
		{Group: "metrics.example.com", Kind: "PodMetrics", Plural: "pods", Singular: "pod", ShortNames: []string{"pm"}},
		{Group: "x.example.com", Kind: "Frame", Plural: "frames", Singular: "windows"},
		{Group: "x.example.com", Kind: "Window", Plural: "windows"},
		{Group: "apps.example.com", Kind: "Deployment", Plural: "deployments", Versions: []api.KindVersion{{Name: "v1"}, {Name: "v2beta1"}}},
	} {
		k.Scope = api.ScopeCluster
		if k.Versions == nil {
			k.Versions = []api.KindVersion{{Name: "v1"}}
		}
		if _, err := c.Resource(client.KindsResource, "").Create(s.Ctx, client.NewKindObject(k)); err != nil {
			t.Fatal(err)
		}
	}
	kinds, err := c.Kinds(s.Ctx)
	must.Succeed(t, err)
	for word, want := range map[string]string{
		"buckets": "buckets.storage.example.com", "BUCKET": "buckets.storage.example.com", "bucket.storage.example.com": "buckets.storage.example.com",
		"buckets.v1.storage.example.com": "buckets.storage.example.com",
		"limits":                         "limits.example.com", "limits.example.com": "limits.example.com", "limit": "limits.example.com", "limitrange": "limitranges",
		"clusters.a.example.com": "clusters.a.example.com", "cluster.b.example.com": "clusters.b.example.com", "cl.b.example.com": "clusters.b.example.com", "one": "clusters.a.example.com",
		"pods": "pods", "pod": "pods", "po": "pods", "pods.v1": "pods", "pods.": "pods", "Po.": "pods", "pods.v1.": "pods", "pm": "pods.metrics.example.com", "pods.metrics.example.com": "pods.metrics.example.com", "podmetrics": "pods.metrics.example.com",
		"windows.x.example.com": "windows.x.example.com", "frames": "frames.x.example.com",
		"deployments.v1.apps": "deployments.apps", "deployments.v2beta1.apps.example.com": "deployments.apps.example.com", "deploy": "deployments.apps",
	} {
		if k, err := kinds.Find(word); err != nil || client.ResourceOf(k).String() != want {
			t.Errorf("%q is %v, %v; want %s", word, client.ResourceOf(k), err, want)
		}
	}
	for word, says := range map[string]string{
		"cluster":     "it may be clusters.a.example.com or clusters.b.example.com; write the full name",
		"clusters":    "it may be clusters.a.example.com or clusters.b.example.com",
		"cl":          "it may be clusters.a.example.com or clusters.b.example.com",
		"quota":       "it may be clusters.b.example.com or resourcequotas",
		"deployments": "it may be deployments.apps or deployments.apps.example.com",
		"windows":     "it may be frames.x.example.com or windows.x.example.com",

		"deployments.v9.apps":                  `"deployments.v9.apps" has no version "v9": deployments.apps has v1`,
		"deployments.v2.apps.example.com":      "deployments.apps.example.com has v1, v2beta1",
		"pods.v2":                              `no version "v2": pods has v1`,
		"windows.v2.x.example.com":             "frames.x.example.com has v1; windows.x.example.com has v1",
		"deploy.v1beta1.apps":                  "deployments.apps has v1",
		"Deployments.V2BETA2.Apps.example.com": `no version "v2beta2"`,
	} {
		_, err := kinds.Find(word)
		refused(t, word, err, client.ErrBadRequest)
		if err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want it to say %s", word, err, says)
		}
	}
	for _, word := range []string{
		"", " ", ",", ".", ".storage.example.com", "buckets.", "buckets..storage.example.com", "pods,", "pods/", "pods..", "pods.v1..", "podmetrics.", "deployments.apps.", "pods.metrics", "pods.v1.v1", "deployments.v1.v1.apps", "pods ", "a/b/c", "pods\n",
	} {
		_, err := kinds.Find(word)
		refused(t, word, err, client.ErrUnknownKind)
	}
}
