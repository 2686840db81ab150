package oracle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/test/oracle/oracletest"
)

// kubernetes is an API server for custom resources. It implements oracle.Server.
type kubernetes struct {
	client *http.Client
	host   string
	config *rest.Config
}

// startKubernetes starts an etcd and an API server that serves oracle.Kinds.
func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	klog.LogToStderr(testing.Verbose())
	klog.SetOutput(io.Discard)
	// Clients use the token of the loopback client, so no authentication is configured.
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(noUser), 0o600); err != nil {
		t.Fatal(err)
	}
	server := servertesting.StartTestServerOrDie(t, nil, []string{
		"--etcd-servers", oracletest.Etcd(t),
		"--authentication-skip-lookup",
		"--authentication-kubeconfig", config, "--authorization-kubeconfig", config, "--kubeconfig", config,
		"--enable-priority-and-fairness=false",
		// These admission plugins need the core API server, which does not run here.
		"--disable-admission-plugins", "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy",
	}, nil)
	t.Cleanup(server.TearDownFn)
	client, err := rest.HTTPClientFor(server.ClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubernetes{client: client, host: server.ClientConfig.Host, config: server.ClientConfig}
	k.register(t, clientset.NewForConfigOrDie(server.ClientConfig))
	return k
}

const noUser = `
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
users: [{name: none, user: {}}]
`

// register registers the kinds, and waits until they are served.
func (k *kubernetes) register(t *testing.T, api clientset.Interface) {
	t.Helper()
	anything := true
	free := apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
	for _, kind := range oracle.Kinds() {
		scope := apiextensions.ClusterScoped
		if kind.Namespaced {
			scope = apiextensions.NamespaceScoped
		}
		_, err := api.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensions.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: kind.Plural + "." + oracle.Group},
			Spec: apiextensions.CustomResourceDefinitionSpec{
				Group: oracle.Group, Scope: scope,
				Names: apiextensions.CustomResourceDefinitionNames{Kind: kind.Kind, ListKind: kind.Kind + "List", Plural: kind.Plural},
				Versions: []apiextensions.CustomResourceDefinitionVersion{{
					Name: oracle.Version, Served: true, Storage: true,
					Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
						Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": free, "status": free},
					}},
					Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		probe := oracle.Request{Verb: oracle.Create, Kind: kind, DryRun: true, Body: fmt.Appendf(nil,
			`{"apiVersion": "%s/%s", "kind": %q, "metadata": {"name": "probe"}}`, oracle.Group, oracle.Version, kind.Kind)}
		if kind.Namespaced {
			probe.Namespace = "default"
		}
		err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			reply, err := k.Do(ctx, probe)
			return err == nil && reply.Code == http.StatusCreated, err
		})
		if err != nil {
			t.Fatalf("%s are not served: %v", kind.Plural, err)
		}
	}
}

// Do implements oracle.Server.
func (k *kubernetes) Do(ctx context.Context, q oracle.Request) (*oracle.Reply, error) {
	method := map[oracle.Verb]string{
		oracle.Get: http.MethodGet, oracle.Create: http.MethodPost, oracle.Delete: http.MethodDelete,
		oracle.Update: http.MethodPut, oracle.UpdateStatus: http.MethodPut, oracle.Patch: http.MethodPatch,
	}[q.Verb]
	request, err := http.NewRequestWithContext(ctx, method, k.url(q), bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if q.Verb == oracle.Patch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	reply := &oracle.Reply{Code: response.StatusCode, Warned: response.Header.Get("Warning") != ""}
	var status struct {
		Kind            string
		Reason, Message string
		Details         struct{ Causes []oracle.Cause }
	}
	if json.Unmarshal(body, &status) != nil {
		reply.Message = string(body) // the reply to a path that is not served has no Status
		return reply, nil
	}
	if status.Kind != "Status" {
		reply.Object, err = oracle.ReadObject(body)
		return reply, err
	}
	reply.Reason, reply.Message, reply.Causes = status.Reason, status.Message, status.Details.Causes
	return reply, nil
}

func (k *kubernetes) url(q oracle.Request) string {
	segments := []string{"apis", oracle.Group, oracle.Version}
	if q.Namespace != "" {
		segments = append(segments, "namespaces", q.Namespace)
	}
	segments = append(segments, q.Kind.Plural)
	if q.Name != "" {
		segments = append(segments, url.PathEscape(q.Name))
	}
	if q.Verb == oracle.UpdateStatus {
		segments = append(segments, "status")
	}
	u := k.host + "/" + path.Join(segments...)
	if q.DryRun {
		u += "?dryRun=All"
	}
	return u
}
