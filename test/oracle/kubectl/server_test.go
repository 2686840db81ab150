package kubectl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	servertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"

	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/test/oracle/oracletest"
)

// kubernetes is an API server for all kinds of Kubernetes, and Widgets. It implements
// oracle.Applier with kubectl.
type kubernetes struct {
	*kubectl
	client dynamic.Interface
}

// start starts an etcd and an API server.
func start(t *testing.T) *kubernetes {
	t.Helper()
	klog.LogToStderr(testing.Verbose())
	klog.SetOutput(io.Discard)
	server := servertesting.StartTestServerOrDie(t, nil, []string{
		"--disable-admission-plugins", "ServiceAccount", // its controller does not run
		"--endpoint-reconciler-type", "none", // no address of the loopback device can be an endpoint
	}, &storagebackend.Config{
		Prefix: "/registry", Transport: storagebackend.TransportConfig{ServerList: []string{oracletest.Etcd(t)}},
	})
	t.Cleanup(server.TearDownFn)
	k := &kubernetes{kubectl: build(t), client: dynamic.NewForConfigOrDie(server.ClientConfig)}
	k.configure(t, server.ClientConfig)
	k.register(t, clientset.NewForConfigOrDie(server.ClientConfig))
	return k
}

// configure writes the configuration of kubectl.
func (k *kubernetes) configure(t *testing.T, server *rest.Config) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{
		Server: server.Host, CertificateAuthorityData: server.CAData, TLSServerName: server.ServerName,
	}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: server.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: metav1.NamespaceDefault}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, k.config()); err != nil {
		t.Fatal(err)
	}
}

var widgets = schema.GroupVersionResource{Group: oracle.Group, Version: oracle.Version, Resource: "widgets"}

// register registers Widgets, and waits until they are served.
func (k *kubernetes) register(t *testing.T, api clientset.Interface) {
	t.Helper()
	anything := true
	free := apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
	_, err := api.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: widgets.Resource + "." + oracle.Group},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: oracle.Group, Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Kind: "Widget", ListKind: "WidgetList", Plural: widgets.Resource, Singular: "widget"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: oracle.Version, Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": free, "data": free},
				}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	probe := oracle.Write{Verb: oracle.Create, As: oracle.Targets()[0], Name: "probe", Body: fmt.Appendf(nil,
		`{"apiVersion": "%s/%s", "kind": "Widget", "metadata": {"name": "probe"}}`, oracle.Group, oracle.Version)}
	var said *oracle.Written
	err = wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		said, err = k.Write(ctx, probe)
		return err == nil && said.Code == 0, err
	})
	if err != nil {
		t.Fatalf("widgets are not served: %v: %+v", err, said)
	}
}

// Write implements oracle.Applier.
func (k *kubernetes) Write(ctx context.Context, w oracle.Write) (*oracle.Written, error) {
	if w.Verb == oracle.Patch {
		_, err := k.objects(w.As).Patch(ctx, w.Name, types.MergePatchType, w.Body, metav1.PatchOptions{FieldManager: "another-client"})
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return &oracle.Written{Code: 1, Said: string(status.Status().Reason)}, nil
		}
		return &oracle.Written{Said: "patched"}, err
	}
	const file = "manifest.json"
	if err := os.WriteFile(filepath.Join(k.directory, file), w.Body, 0o600); err != nil {
		return nil, err
	}
	args := []string{string(w.Verb), "-f", file}
	if w.As.ServerSide && w.Verb == oracle.Apply {
		args = append(args, "--server-side", "--force-conflicts")
	}
	r, err := k.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	return r.written()
}

// Read implements oracle.Applier.
func (k *kubernetes) Read(ctx context.Context, as oracle.Target, name string) (oracle.Object, error) {
	o, err := k.objects(as).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o.Object, nil
}

func (k *kubernetes) objects(as oracle.Target) dynamic.ResourceInterface {
	of := widgets
	if as.Kind == "ConfigMap" {
		of = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	}
	return k.client.Resource(of).Namespace(metav1.NamespaceDefault)
}
