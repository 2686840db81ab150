package chart_test

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

// workload is a StatefulSet or Deployment.
type workload struct {
	name     string
	selector *metav1.LabelSelector
	pod      core.PodTemplateSpec
	claims   []core.PersistentVolumeClaim
}

func (w workload) container() core.Container { return w.pod.Spec.Containers[0] }

// service is the name of the service that the pods run: their first argument.
func (w workload) service() string { return w.container().Args[0] }

func (w workload) env(name string) string {
	for _, e := range w.container().Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func workloads(objects []runtime.Object) []workload {
	var all []workload
	for _, o := range objects {
		switch o := o.(type) {
		case *apps.StatefulSet:
			all = append(all, workload{o.Name, o.Spec.Selector, o.Spec.Template, o.Spec.VolumeClaimTemplates})
		case *apps.Deployment:
			all = append(all, workload{o.Name, o.Spec.Selector, o.Spec.Template, nil})
		}
	}
	return all
}

// eachWorkload runs a test with each service of each set of values.
func eachWorkload(t *testing.T, test func(*testing.T, workload)) {
	t.Helper()
	each(t, func(t *testing.T, set chart.Set) {
		all := workloads(objects(t, set))
		if len(all) != 4 {
			t.Errorf("%d workloads", len(all))
		}
		for _, w := range all {
			if len(w.pod.Spec.Containers) != 1 || len(w.pod.Spec.InitContainers) > 0 {
				t.Fatalf("%s: not one container", w.name)
			}
			t.Run(w.service(), func(t *testing.T) { test(t, w) })
		}
	})
}

// TestProbes checks that no probe that restarts a container asks whether the service is
// ready: it waits for NATS as long as it takes. That the pod is ready depends on it.
func TestProbes(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w workload) {
		c := w.container()
		for probe, want := range map[*core.Probe]string{c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != want || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
				t.Errorf("probe %+v, want of %s", probe, want)
			}
		}
		if len(c.Ports) != 1 || w.env("COPPICE_HTTP") != ":"+strconv.Itoa(int(c.Ports[0].ContainerPort)) {
			t.Errorf("serves %q, ports %v", w.env("COPPICE_HTTP"), c.Ports)
		}
		if g := w.pod.Spec.TerminationGracePeriodSeconds; g == nil || *g < 30 {
			t.Errorf("grace period %v", g)
		}
	})
}

// TestSecrets checks that secrets are files that only the user and the group of the process
// may read, that each variable which names a file names one that is mounted, and that no
// secret is an argument, a variable, or a file that this service does not need.
func TestSecrets(t *testing.T) {
	secret := regexp.MustCompile(`(PASSWORD|SECRET|TOKEN|CREDS|NKEY|_KEY)$`)
	eachWorkload(t, func(t *testing.T, w workload) {
		files := map[string]bool{} // mounted, and whether a variable names them
		for _, v := range w.pod.Spec.Volumes {
			if v.Secret == nil {
				continue
			}
			if len(v.Secret.Items) == 0 || v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440 {
				t.Errorf("volume %s: all keys, or mode %v", v.Name, v.Secret.DefaultMode)
			}
			for _, m := range w.container().VolumeMounts {
				for _, item := range v.Secret.Items {
					if m.Name == v.Name {
						files[path.Join(m.MountPath, item.Path)] = false
					}
				}
			}
		}
		for _, e := range w.container().Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				t.Errorf("%s is a secret: mount a file", e.Name)
			}
			if strings.HasPrefix(e.Value, "/etc/coppice/") {
				if _, ok := files[e.Value]; !ok {
					t.Errorf("%s: %s is not mounted", e.Name, e.Value)
				}
				files[e.Value] = true
			} else if secret.MatchString(e.Name) {
				t.Errorf("%s has the value %q", e.Name, e.Value)
			}
		}
		for file, named := range files {
			if !named {
				t.Errorf("no variable names %s", file)
			}
		}
		for _, e := range w.container().EnvFrom {
			if e.SecretRef == nil || w.service() != "graph" {
				t.Errorf("variables from %+v", e)
			}
		}
		if graph := w.service() == "graph"; graph != (w.env("COPPICE_SECRET_FILE") != "") {
			t.Errorf("the installation's secret: %q", w.env("COPPICE_SECRET_FILE"))
		}
	})
}

// TestRestricted checks what the API server does not: it does not demand a read-only root
// file system, numeric users, or pods without tokens and service links.
func TestRestricted(t *testing.T) {
	eachWorkload(t, func(t *testing.T, w workload) {
		p, c := w.pod.Spec, w.container()
		if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
			t.Error("the pod gets a token")
		}
		if p.EnableServiceLinks == nil || *p.EnableServiceLinks {
			t.Error("service links would set variables such as COPPICE_GRAPH_PORT")
		}
		s := p.SecurityContext
		if *s.RunAsUser != 65532 || *s.RunAsGroup != 65532 || *s.FSGroup != 65532 {
			t.Errorf("users %+v", s)
		}
		if r := c.SecurityContext.ReadOnlyRootFilesystem; r == nil || !*r {
			t.Error("the root file system can be written")
		}
		writable := map[string]bool{}
		for _, m := range c.VolumeMounts {
			writable[m.MountPath] = !m.ReadOnly
		}
		if w.service() == "graph" {
			if len(w.claims) != 1 || !writable[path.Dir(w.env("COPPICE_DATA"))] || !writable["/tmp"] {
				t.Errorf("writable: %v, data %s", writable, w.env("COPPICE_DATA"))
			}
		}
	})
}

// TestMemory compares the limit of Go's runtime with that of the container, and checks that
// there is no limit for the CPU: throttling would delay the renewal of leases.
func TestMemory(t *testing.T) {
	limited := 0
	eachWorkload(t, func(t *testing.T, w workload) {
		if w.env("GOMEMLIMIT") == "" {
			return
		}
		limited++
		runtime, err := resource.ParseQuantity(strings.TrimSuffix(w.env("GOMEMLIMIT"), "B"))
		if err != nil {
			t.Fatal(err)
		}
		limits := w.container().Resources.Limits
		limit := limits.Memory()
		if share := float64(runtime.Value()) / float64(limit.Value()); share > 0.9 || share < 0.5 {
			t.Errorf("Go may use %v of %v", runtime.String(), limit)
		}
	})
	if limited == 0 {
		t.Error("no limit")
	}
	for _, w := range workloads(objects(t, chart.Set{})) {
		if _, ok := w.container().Resources.Limits[core.ResourceCPU]; ok {
			t.Errorf("%s has a limit for the CPU", w.name)
		}
	}
}
