package apply_test

import (
	"io"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
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

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

// server is an API server of Kubernetes, without a kubelet, a scheduler or controllers. Its
// namespace chart.Namespace enforces restricted pods.
type server struct {
	config   *rest.Config
	client   kubernetes.Interface
	objects  dynamic.Interface
	kinds    *restmapper.DeferredDiscoveryRESTMapper
	warnings *warnings
}

// warnings collects what the API server warns of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// start starts an etcd and an API server on the loopback device, in this process.
func start(t *testing.T) *server {
	t.Helper()
	klog.LogToStderr(testing.Verbose())
	klog.SetOutput(io.Discard)
	api := servertesting.StartTestServerOrDie(t, nil, []string{
		"--endpoint-reconciler-type", "none", // no address of the loopback device can be an endpoint
	}, &storagebackend.Config{
		Prefix: "/registry", Transport: storagebackend.TransportConfig{ServerList: []string{etcd(t)}},
	})
	t.Cleanup(api.TearDownFn)
	w := &warnings{}
	config := rest.CopyConfig(api.ClientConfig)
	config.WarningHandler = w
	config.QPS, config.Burst = -1, -1
	s := &server{
		config: config, client: kubernetes.NewForConfigOrDie(config), objects: dynamic.NewForConfigOrDie(config), warnings: w,
		kinds: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config))),
	}
	s.prepare(t)
	return s
}

// prepare creates what the objects of a chart refer to.
func (s *server) prepare(t *testing.T) {
	t.Helper()
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: chart.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The controllers that create the account "default" do not run.
	for _, name := range []string{"default", "coppice", "collector-pods"} {
		account := &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.client.CoreV1().ServiceAccounts(chart.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	class := &scheduling.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "collector"}, Value: 1000}
	if _, err := s.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// apply applies an object as Helm and 'kubectl apply --server-side' do; unknown and repeated
// fields are errors.
func (s *server) apply(t *testing.T, object *unstructured.Unstructured, dryRun ...string) error {
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
func (s *server) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
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
