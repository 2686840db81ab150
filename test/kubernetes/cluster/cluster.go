// Package cluster starts an API server of Kubernetes for tests.
package cluster

import (
	"io"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	servertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
)

// Server is an API server of Kubernetes, without a kubelet, a scheduler or controllers.
type Server struct {
	Config   *rest.Config
	Client   kubernetes.Interface
	Warnings *Warnings
	objects  dynamic.Interface
	kinds    *restmapper.DeferredDiscoveryRESTMapper
}

// Warnings are texts with which the API server warned.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// Take returns the warnings since the last call.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// Start starts an etcd and an API server on the loopback device, in this process. A process
// can start only one.
func Start(t *testing.T) *Server {
	t.Helper()
	klog.LogToStderr(testing.Verbose())
	klog.SetOutput(io.Discard)
	api := servertesting.StartTestServerOrDie(t, nil, []string{
		"--endpoint-reconciler-type", "none", // no address of the loopback device can be an endpoint
	}, &storagebackend.Config{
		Prefix: "/registry", Transport: storagebackend.TransportConfig{ServerList: []string{etcd(t)}},
	})
	t.Cleanup(api.TearDownFn)
	w := &Warnings{}
	config := rest.CopyConfig(api.ClientConfig)
	config.WarningHandler = w
	config.QPS, config.Burst = -1, -1
	return &Server{
		Config: config, Client: kubernetes.NewForConfigOrDie(config), Warnings: w, objects: dynamic.NewForConfigOrDie(config),
		kinds: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config))),
	}
}

// Apply applies an object as Helm and 'kubectl apply --server-side' do; unknown and repeated
// fields are errors.
func (s *Server) Apply(t *testing.T, object *unstructured.Unstructured, dryRun ...string) error {
	t.Helper()
	of, err := s.resource(object)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = of.Patch(t.Context(), object.GetName(), "application/apply-patch+yaml", text, options)
	return err
}

// resource returns the client for an object's kind.
func (s *Server) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	m, err := s.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if object.GetNamespace() == "" {
		return s.objects.Resource(m.Resource), nil
	}
	return s.objects.Resource(m.Resource).Namespace(object.GetNamespace()), nil
}

// etcd starts an etcd in this process, and returns its URL.
func etcd(t *testing.T) string {
	t.Helper()
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.LogLevel = "fatal"   // etcd logs its shutdown as an error
	config.UnsafeNoFsync = true // the data need not survive a crash
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{loopback}, []url.URL{loopback}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{loopback}, []url.URL{loopback}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	e, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd does not become ready")
	}
	return "http://" + e.Clients[0].Addr().String()
}
