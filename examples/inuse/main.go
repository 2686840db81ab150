// Command inuse keeps PersistentVolumeClaims from being removed while a Pod
// uses them, as Kubernetes' pvc-protection does: a claim that is being deleted is removed
// when no Pod uses it any more.
//
//	go run ./examples/inuse
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL))
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor("pvc-protection"))
	return client.RunInUseFinalizer(ctx, c, client.Resource{Plural: "persistentvolumeclaims"}, "kubernetes.io/pvc-protection",
		func(ctx context.Context, claim *coppicev1.Object) (string, error) { return podOf(ctx, c, claim) })
}

// podOf returns a Pod that mounts a claim, "" if none does.
func podOf(ctx context.Context, c *client.Client, claim *coppicev1.Object) (string, error) {
	m := claim.GetMetadata()
	pods := c.Resource(client.Resource{Plural: "pods"}, m.GetNamespace())
	for pod, err := range pods.List(ctx, client.IncludeUninitialized(true)) {
		if err != nil {
			return "", err
		}
		var spec struct {
			Volumes []struct {
				PersistentVolumeClaim *struct {
					ClaimName string `json:"claimName"`
				} `json:"persistentVolumeClaim"`
			} `json:"volumes"`
		}
		if err := json.Unmarshal(pod.GetSpec(), &spec); err != nil {
			continue // a Pod with another kind of spec mounts no claim
		}
		for _, v := range spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == m.GetName() {
				return "pods/" + pod.GetMetadata().GetName(), nil
			}
		}
	}
	return "", nil
}
