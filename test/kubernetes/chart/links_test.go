package chart_test

import (
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

// selected returns the services whose pods a selector matches.
func selected(t *testing.T, all []workload, selector *metav1.LabelSelector) string {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range all {
		if s.Matches(labels.Set(w.pod.Labels)) {
			names = append(names, w.service())
		}
	}
	return strings.Join(names, " ")
}

// TestLinks checks what refers to pods: each selector matches the pods of one service, and
// each port is one of its container.
func TestLinks(t *testing.T) {
	each(t, func(t *testing.T, set chart.Set) {
		every := objects(t, set)
		all := workloads(every)
		of := map[string]workload{}
		for _, w := range all {
			of[w.service()] = w
			if got := selected(t, all, w.selector); got != w.service() {
				t.Errorf("%s selects the pods of %s", w.name, got)
			}
			for _, c := range w.pod.Spec.TopologySpreadConstraints {
				if got := selected(t, all, c.LabelSelector); got != w.service() {
					t.Errorf("a constraint of %s selects the pods of %s", w.name, got)
				}
			}
			if a := w.pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
				for _, term := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					if got := selected(t, all, term.PodAffinityTerm.LabelSelector); got != w.service() {
						t.Errorf("an affinity of %s selects the pods of %s", w.name, got)
					}
				}
			}
		}
		port := func(w workload) core.ContainerPort { return w.container().Ports[0] }
		names := map[string]bool{}
		for _, o := range every {
			switch o := o.(type) {
			case *core.Service:
				names[o.Name] = true
				w, ok := of[selected(t, all, &metav1.LabelSelector{MatchLabels: o.Spec.Selector})]
				if !ok || len(o.Spec.Ports) != 1 || o.Spec.Ports[0].TargetPort.StrVal != port(w).Name || o.Spec.Ports[0].Port != port(w).ContainerPort || o.Spec.ClusterIP != core.ClusterIPNone {
					t.Errorf("service %s: %+v", o.Name, o.Spec)
				}
			case *policy.PodDisruptionBudget:
				if _, ok := of[selected(t, all, o.Spec.Selector)]; !ok {
					t.Errorf("budget %s: %+v", o.Name, o.Spec)
				}
			case *networking.NetworkPolicy:
				w, ok := of[selected(t, all, &o.Spec.PodSelector)]
				if !ok || len(o.Spec.PolicyTypes) != 2 || len(o.Spec.Ingress) != 1 || len(o.Spec.Ingress[0].Ports) != 1 || o.Spec.Ingress[0].Ports[0].Port.IntVal != port(w).ContainerPort {
					t.Errorf("policy %s: %+v", o.Name, o.Spec)
				}
			case *monitoring.ServiceMonitor:
				monitored := 0
				for _, s := range services(every) {
					if labels.SelectorFromSet(o.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) && s.Spec.Ports[0].Name == o.Spec.Endpoints[0].Port {
						monitored++
					}
				}
				if monitored != 4 {
					t.Errorf("%s monitors %d services", o.Name, monitored)
				}
			}
		}
		for _, o := range every {
			if s, ok := o.(*apps.StatefulSet); ok && !names[s.Spec.ServiceName] {
				t.Errorf("%s: no service %s", s.Name, s.Spec.ServiceName)
			}
		}
	})
}

func services(every []runtime.Object) []*core.Service {
	var all []*core.Service
	for _, o := range every {
		if s, ok := o.(*core.Service); ok {
			all = append(all, s)
		}
	}
	return all
}

// TestEgress checks the ports of NATS and of the archive, which come from URLs.
func TestEgress(t *testing.T) {
	for _, test := range []struct{ nats, archive, graph, processor string }{
		{"nats://nats", "", "53 53 4222", "53 53 4222"},
		{"tls://nats:4333/", "nats://bucket", "53 53 4333", "53 53 4333"},
		{"nats://a:4222,nats://b:4223,nats://c:4222", "file:///archive", "53 53 4222 4223", "53 53 4222 4223"},
		{"nats://[::1]:4222", "s3://bucket", "53 53 4222 443", "53 53 4222"},
		{"nats://nats:4222", "s3://bucket/a?endpoint=https://s3.example.com&region=here", "53 53 4222 443", "53 53 4222"},
		{"nats://nats:4222", "s3://bucket?region=here&endpoint=http://s3", "53 53 4222 80", "53 53 4222"},
		{"nats://nats:4222", "s3://bucket?endpoint=http%3A%2F%2Fs3%3A9000%2F", "53 53 4222 9000", "53 53 4222"},
	} {
		values := map[string]any{"nats": map[string]any{"url": test.nats}, "archive": map[string]any{"url": test.archive}}
		for _, o := range objects(t, chart.Set{Values: values}) {
			p, ok := o.(*networking.NetworkPolicy)
			if !ok {
				continue
			}
			var ports []string
			for _, rule := range p.Spec.Egress {
				for _, port := range rule.Ports {
					ports = append(ports, port.Port.String())
				}
			}
			want := test.processor
			if p.Name == "coppice-graph" {
				want = test.graph
			}
			if got := strings.Join(ports, " "); got != want {
				t.Errorf("%s with %s and %s: %s, want %s", p.Name, test.nats, test.archive, got, want)
			}
		}
	}
}
