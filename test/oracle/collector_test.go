package oracle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	clients "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"github.com/coppice-gc/coppice/internal/oracle"
)

// collected is an API server together with Kubernetes' garbage collector. It is an
// oracle.Settler.
type collected struct {
	*kubernetes
	canaries int
}

// startCollected starts both, and waits until the collector knows the kinds.
func startCollected(t *testing.T) *collected {
	t.Helper()
	k := &collected{kubernetes: startKubernetes(t)}
	config := rest.CopyConfig(k.config)
	config.QPS = -1 // no limit
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return groups{next} })
	client := clients.NewForConfigOrDie(config)
	objects := metadata.NewForConfigOrDie(config)
	started := make(chan struct{})
	close(started)
	ctx, cancel := context.WithCancel(context.Background())
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, objects,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(informers.NewSharedInformerFactory(client, 0), metadatainformer.NewSharedInformerFactory(objects, 0)),
		started)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}, 2)
	go func() { collector.Run(ctx, 5, time.Minute); ended <- struct{}{} }()
	go func() { collector.Sync(ctx, client.Discovery(), time.Second); ended <- struct{}{} }()
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			<-ended
		}
	})
	if err := k.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

// groups serves the list of API groups, as the aggregator of a cluster does. The API server
// serves the rest of the discovery.
type groups struct{ next http.RoundTripper }

func (g groups) RoundTrip(request *http.Request) (*http.Response, error) {
	var list any
	switch request.URL.Path {
	case "/api":
		list = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
	case "/apis":
		version := metav1.GroupVersionForDiscovery{GroupVersion: oracle.Group + "/" + oracle.Version, Version: oracle.Version}
		list = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{
			{Name: oracle.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version},
		}}
	default:
		return g.next.RoundTrip(request)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(raw)), Request: request,
	}, nil
}

const (
	// looks is the number of times that nothing must have changed before Settle assumes
	// that the collector is idle. Between two looks the collector handles everything that
	// was in its queues, except retries.
	looks = 3
	// pause is long enough for a first retry, which follows after milliseconds.
	pause = 300 * time.Millisecond
)

// Settle implements oracle.Settler. The collector retries failed objects for ever, at
// growing intervals, and does not report when it is idle. So Settle waits until the objects
// do not change any more.
func (k *collected) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	was, same := "", 0
	for same < looks {
		if err := k.sing(ctx); err != nil {
			return err
		}
		is, err := k.revisions(ctx)
		if err != nil {
			return err
		}
		if same++; is != was {
			was, same = is, 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("the collector comes to no end: %w", ctx.Err())
		}
	}
	return nil
}

// canary is the namespace of the objects that Settle creates.
const canary = "canary"

// sing returns when the collector has seen all existing objects of each kind. For each kind
// it creates an object that is garbage, and waits until the collector has deleted it.
func (k *collected) sing(ctx context.Context) error {
	for _, kind := range oracle.Kinds() {
		k.canaries++
		q := oracle.Request{Verb: oracle.Create, Kind: kind}
		name := fmt.Sprintf("%s-%d", canary, k.canaries)
		if kind.Namespaced {
			q.Namespace = canary
		}
		q.Body = fmt.Appendf(nil, `{"apiVersion": "%s/%s", "kind": %q, "metadata": {"name": %q, "ownerReferences": [
			{"apiVersion": "%[1]s/%[2]s", "kind": "Rack", "name": "%[4]s", "uid": "%[4]s"}]}}`, oracle.Group, oracle.Version, kind.Kind, name)
		reply, err := k.Do(ctx, q)
		if err != nil || reply.Code != http.StatusCreated {
			return fmt.Errorf("create a canary: %+v, %w", reply, err)
		}
		q.Verb, q.Name, q.Body = oracle.Get, name, nil
		err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			reply, err := k.Do(ctx, q)
			return err == nil && reply.Code == http.StatusNotFound, err
		})
		if err != nil {
			return fmt.Errorf("%s %s is not collected: %w", kind.Kind, name, err)
		}
	}
	return nil
}

// revisions returns the resource versions of all objects.
func (k *collected) revisions(ctx context.Context) (string, error) {
	var all []string
	for _, kind := range oracle.Kinds() {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.host+"/apis/"+oracle.Group+"/"+oracle.Version+"/"+kind.Plural, nil)
		if err != nil {
			return "", err
		}
		response, err := k.client.Do(request)
		if err != nil {
			return "", err
		}
		var list struct {
			Items []struct {
				Metadata struct{ UID, ResourceVersion string }
			}
		}
		err = json.NewDecoder(response.Body).Decode(&list)
		response.Body.Close()
		if err != nil {
			return "", fmt.Errorf("list %s: %w", kind.Plural, err)
		}
		for _, item := range list.Items {
			all = append(all, item.Metadata.UID+" "+item.Metadata.ResourceVersion)
		}
	}
	slices.Sort(all)
	return fmt.Sprint(all), nil
}
