// Package readme_test runs the commands of the documents about Kubernetes, with helm, kubectl
// and coppice, against an API server of Kubernetes.
//
// Helm refuses an API server without a version, and that of Kubernetes is set when it is
// linked: '.ci/nightly kubernetes' does.
package readme_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
	"github.com/coppice-gc/coppice/test/kubernetes/cluster"
)

const repository = "../../.."

// elsewhere matches blocks that need a running pod, a controller, or the chart of NATS.
var elsewhere = regexp.MustCompile(`helm install nats | rollout status | port-forward | exec `)

// terminal is a shell in a clone of the repository.
type terminal struct {
	*cluster.Server
	dir, tools string
}

// TestReadme runs the commands of the documents, in their order: with Helm, and without.
func TestReadme(t *testing.T) {
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	build(t, ".", tools, "helm.sh/helm/v4/cmd/helm", "k8s.io/kubernetes/cmd/kubectl")
	build(t, root, tools, "./cmd/coppice", "github.com/nats-io/nats-server/v2")
	t.Run("helm", func(t *testing.T) {
		s := open(t, root, tools)
		s.follow(t, 4, map[string]func(*testing.T){
			"kubectl create namespace nats": s.checkNATS,
			"helm install coppice":          s.checkInstalled,
			"archive.url=":                  s.checkArchive,
			"image.tag=1.2.4":               s.checkUpgraded("1.2.4", 1),
			"processor.replicas=4":          s.checkScaled,
			"helm uninstall":                s.checkRemoved,
		}, blocks(t, filepath.Join(root, "deploy/helm/coppice/README.md"), "")...)
	})
	t.Run("kubectl", func(t *testing.T) {
		s := open(t, root, tools)
		s.follow(t, 3, map[string]func(*testing.T){
			"kubectl create namespace nats": s.checkNATS,
			"mkdir installation":            s.checkInstalled,
			"newTag: 1.2.4":                 s.checkUpgraded("1.2.4", 0),
			"delete statefulset,":           s.checkRemoved,
		}, append(blocks(t, filepath.Join(root, "docs/install.md"), "Kubernetes"), blocks(t, filepath.Join(root, "deploy/kubernetes/README.md"), "")...)...)
	})
}

// open starts an API server, and returns a shell that can use it.
func open(t *testing.T, root, tools string) *terminal {
	t.Helper()
	s := &terminal{dir: t.TempDir(), tools: tools}
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(s.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	s.Server = cluster.Start(t)
	s.configure(t)
	return s
}

// follow runs blocks of commands, apart from those that need a running pod, a controller or the chart of NATS, of which
// there are so many. checks has what is checked after a block with a text.
func (s *terminal) follow(t *testing.T, without int, checks map[string]func(*testing.T), blocks ...string) {
	t.Helper()
	for _, block := range blocks {
		if elsewhere.MatchString(block) {
			without--
			continue
		}
		s.run(t, block)
		for command, check := range checks {
			if strings.Contains(block, command) {
				check(t)
				delete(checks, command)
			}
		}
	}
	if without != 0 {
		t.Errorf("%d blocks more than the documents have were to be left out", without)
	}
	for command := range checks {
		t.Errorf("no document has the command %q", command)
	}
}

// blocks returns the commands of a document, or of one of its sections.
func blocks(t *testing.T, document, section string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if section != "" {
		_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
		if !ok {
			t.Fatalf("%s has no section %s", document, section)
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
		text = []byte(rest)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^( *)```bash\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, regexp.MustCompile("(?m)^"+m[1]).ReplaceAllString(m[2], ""))
	}
	if len(all) < 2 {
		t.Fatalf("%s has %d blocks of commands", document, len(all))
	}
	return all
}

func build(t *testing.T, dir, out string, packages ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", out + "/"}, packages...)...)
	c.Dir = dir
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// configure writes the configuration of kubectl and helm.
func (s *terminal) configure(t *testing.T) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{
		Server: s.Config.Host, CertificateAuthorityData: s.Config.CAData, TLSServerName: s.Config.ServerName,
	}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: s.Config.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, s.kubeconfig()); err != nil {
		t.Fatal(err)
	}
}

func (s *terminal) kubeconfig() string { return filepath.Join(s.tools, "kubeconfig") }

// run runs commands. Each must succeed.
func (s *terminal) run(t *testing.T, commands string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "PATH="+s.tools+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig(), "HOME="+s.tools)
	text, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands, text)
	}
	t.Logf("%s\n%s", commands, text)
}

// checkNATS starts no server, but has one read the accounts from the secret, as NATS' chart
// mounts and includes them.
func (s *terminal) checkNATS(t *testing.T) {
	t.Helper()
	values, err := chart.ReadValues(filepath.Join(repository, "deploy", "helm", "nats.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	include, _, _ := unstructured.NestedString(values, "config", "merge", "$include")
	listen, _, _ := unstructured.NestedString(values, "config", "merge", "listen")
	patches, _, _ := unstructured.NestedSlice(values, "podTemplate", "patch")
	volume := patches[0].(map[string]any)["value"].(map[string]any)["secret"].(map[string]any)
	secret, err := s.Client.CoreV1().Secrets("nats").Get(t.Context(), volume["secretName"].(string), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	etc := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(etc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range volume["items"].([]any) {
		item := i.(map[string]any)
		write(filepath.Join("nats-accounts", item["path"].(string)), string(secret.Data[item["key"].(string)]))
	}
	write("nats-config/nats.conf", fmt.Sprintf(`{ include %s; "jetstream": {"max_memory_store": 1Gi, "store_dir": "/data"}, "listen": %q, "port": 4222, "server_name": "nats-0" }`, include, listen))
	s.run(t, "nats-server -t -c "+filepath.Join(etc, "nats-config", "nats.conf"))
}

// checkInstalled checks the image and the address of NATS, and that the secrets which pods
// mount exist, with their keys.
func (s *terminal) checkInstalled(t *testing.T) {
	t.Helper()
	for name, pod := range s.pods(t) {
		if c := pod.Containers[0]; c.Image != "registry.example.com/coppice:1.2.3" || c.Env[0].Value != "nats://nats.nats:4222" {
			t.Errorf("%s: image %s, NATS at %s", name, c.Image, c.Env[0].Value)
		}
		for _, v := range pod.Volumes {
			if v.Secret == nil {
				continue
			}
			secret, err := s.Client.CoreV1().Secrets(chart.Namespace).Get(t.Context(), v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, item := range v.Secret.Items {
				if len(secret.Data[item.Key]) < 32 {
					t.Errorf("%s: secret %s has %d bytes in %s", name, secret.Name, len(secret.Data[item.Key]), item.Key)
				}
			}
		}
	}
	n, err := s.Client.CoreV1().Namespaces().Get(t.Context(), chart.Namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("labels %v", n.Labels)
	}
}

func (s *terminal) checkArchive(t *testing.T) {
	t.Helper()
	c := s.graph(t).Spec.Template.Spec.Containers[0]
	if c.Image != "registry.example.com/coppice:1.2.3" || len(c.EnvFrom) != 1 {
		t.Fatalf("%+v", c)
	}
	if _, err := s.Client.CoreV1().Secrets(chart.Namespace).Get(t.Context(), c.EnvFrom[0].SecretRef.Name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// checkUpgraded checks the version, and the number of secrets with variables, which stay.
func (s *terminal) checkUpgraded(version string, secrets int) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if c := s.graph(t).Spec.Template.Spec.Containers[0]; c.Image != "registry.example.com/coppice:"+version || len(c.EnvFrom) != secrets {
			t.Errorf("%+v", c)
		}
	}
}

func (s *terminal) checkScaled(t *testing.T) {
	t.Helper()
	if n := *s.graph(t).Spec.Replicas; n != 3 {
		t.Errorf("%d graph pods", n)
	}
}

// checkRemoved checks that nothing runs any more, and that the secrets are left.
func (s *terminal) checkRemoved(t *testing.T) {
	t.Helper()
	if _, err := s.Client.AppsV1().StatefulSets(chart.Namespace).Get(t.Context(), "coppice-graph", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("graph: %v", err)
	}
	left, err := s.Client.AppsV1().Deployments(chart.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d deployments: %v", len(left.Items), err)
	}
	if _, err := s.Client.CoreV1().Secrets(chart.Namespace).Get(t.Context(), "coppice-secret", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func (s *terminal) graph(t *testing.T) *apps.StatefulSet {
	t.Helper()
	g, err := s.Client.AppsV1().StatefulSets(chart.Namespace).Get(t.Context(), "coppice-graph", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// pods returns the templates of the pods, by the name of their controller.
func (s *terminal) pods(t *testing.T) map[string]core.PodSpec {
	t.Helper()
	all := map[string]core.PodSpec{"coppice-graph": s.graph(t).Spec.Template.Spec}
	deployments, err := s.Client.AppsV1().Deployments(chart.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		all[d.Name] = d.Spec.Template.Spec
	}
	if len(all) != 4 {
		t.Errorf("%d controllers", len(all))
	}
	return all
}
