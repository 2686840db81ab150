package docs_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// scene has what a command of the documents needs before it runs, and what it must print.
type scene struct {
	match *regexp.Regexp
	// before prepares objects.
	before func(*testing.T, *player)
	// with replaces what a reader replaces: uids, plans, directories.
	with func(*player, string) string
	// prints must match standard output and error.
	prints string
	// repeat has the command run until it prints that: it does not wait for slow replies.
	repeat bool
	// after looks at the output.
	after func(*testing.T, *player, string)
}

// succeeded is in the reply to a request that has succeeded for each object.
const succeeded = `"code":\s*20\d`

// scenes has the scene of each command: the first that matches it.
var scenes = []scene{
	{match: on(`\.create\._\.configmaps\.`), prints: succeeded},
	{match: on(`\.get\._\.configmaps\.`), prints: succeeded},
	{match: on(`\.plan\.apps\.deployments\.`), before: deployment, prints: `"hash":\s*"`, after: rememberPlan},
	{match: on(`\.delete\.apps\.deployments\..*"plan"`), before: deployment, with: withPlan, prints: succeeded},
	{match: on(`\.delete\.apps\.deployments\.`), before: deployment, prints: succeeded},

	{match: on(`\.consumeexpiry\.`), prints: `"durable":\s*"e-`},
	{match: regexp.MustCompile(`^nats sub _INBOX\.keeper\.`), before: noticed, prints: `Subscribing on`},
	{match: regexp.MustCompile(`^nats pub --reply _INBOX\.keeper\.\S+ '\$JS\.API\.CONSUMER\.MSG\.NEXT\.`), prints: `Published`, after: awaitNotice},
	{match: on(`\.veto\._\.configmaps\.`), with: withVeto, prints: `"revision"`, after: vetoed},

	{match: on(`\.lease\._\._\._`), prints: `"held":\s*true`},

	{match: on(`\.consumefinalizer\.`), prints: `"durable":\s*"f-`},
	{match: regexp.MustCompile(`^nats sub _INBOX\.`), before: calledPod, prints: `Subscribing on`},
	{match: regexp.MustCompile(`^nats pub --reply _INBOX\.\S+ '\$JS\.API\.CONSUMER\.MSG\.NEXT\.`), prints: `Published`, after: awaitCall},
	{match: on(`\.get\._\.pods\.`), before: calledPod, prints: succeeded},
	{match: regexp.MustCompile(`^nats pub '\$JS\.ACK\.\S+' (\+(WPI|ACK)|-- '-NAK .*')$`), with: withAck, prints: `Published`},
	{match: on(`\.removefinalizer\._\.pods\.`), before: calledPod, with: withUID, prints: succeeded, after: podGone},
	{match: on(`\.delete\._\.pods\.`), before: pod, with: withUID, prints: succeeded},

	{match: regexp.MustCompile(`^nats micro ls$`), prints: `coppice-writer`, repeat: true},
	{match: regexp.MustCompile(`^nats micro info coppice-writer$`), prints: `coppice-writer`},
	{match: regexp.MustCompile(`^nats stream backup coppice-\w+-log backup/\w+$`), before: secondRealm, prints: `(?i)backup`, after: backedUp},
	{match: regexp.MustCompile(`^nats stream restore backup/\w+$`), before: emptyServer, with: onEmptyServer, prints: `Last Sequence: [\d,]+`, after: continuesHigher},
	{match: regexp.MustCompile(`^nats stream edit coppice-default-log `), prints: `was updated`},
}

func on(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^nats (req|request) .*coppice\.default\.api\.[a-z]+` + pattern)
}

// failures are in the output of a nats command that has ended with exit code 0.
var failures = regexp.MustCompile(`Nats-Service-Error|No responders|(?i)permissions violation`)

// ensure creates an object, unless it exists and is not being deleted.
func (p *player) ensure(t *testing.T, r client.Resource, o *coppicev1.Object) {
	t.Helper()
	objects := p.admin.Resource(r, "shop")
	testkit.WaitFor(t, p.ctx, "an object to be there", func() bool {
		created, err := objects.Create(p.ctx, o)
		if err == nil {
			p.objects[r.Plural] = created
			return true
		}
		is, getErr := objects.Get(p.ctx, o.GetMetadata().GetName())
		switch {
		case getErr == nil && is.GetMetadata().GetDeletionTimestamp() == nil:
			p.objects[r.Plural] = is
			return true
		case getErr == nil, errors.Is(getErr, client.ErrNotFound):
			return false
		}
		t.Fatal(err, getErr)
		return false
	})
}

func deployment(t *testing.T, p *player) {
	t.Helper()
	p.ensure(t, client.Resource{Group: "apps", Plural: "deployments"}, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web"}})
}

var pods = client.Resource{Plural: "pods"}

func pod(t *testing.T, p *player) {
	t.Helper()
	p.ensure(t, pods, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web-1"}})
}

// calledPod creates a pod with a finalizer and deletes it, so that the finalizer is called.
func calledPod(t *testing.T, p *player) {
	t.Helper()
	if p.objects[pods.Plural] != nil {
		return
	}
	p.ensure(t, pods, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web-1", Finalizers: []string{bus.ExampleFinalizer}}})
	if _, err := p.admin.Resource(pods, "shop").Delete(p.ctx, "web-1"); err != nil {
		t.Fatal(err)
	}
}

func podGone(t *testing.T, p *player, _ string) {
	t.Helper()
	testkit.WaitFor(t, p.ctx, "the pod to be removed", func() bool {
		_, err := p.admin.Resource(pods, "shop").Get(p.ctx, "web-1")
		return errors.Is(err, client.ErrNotFound)
	})
}

// awaitCall waits for the call that was pulled, and remembers the subject that acknowledges it.
func awaitCall(t *testing.T, p *player, _ string) {
	t.Helper()
	p.ack = p.pulled(t, `with reply "(\$JS\.ACK\.[^"]+)"[^#]+"resource":"pods"`)
}

var preview = client.Resource{Plural: "configmaps"}

// noticed creates an object and a policy that gives notice of its deletion.
func noticed(t *testing.T, p *player) {
	t.Helper()
	p.ensure(t, preview, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "preview-7"}})
	_, err := p.admin.Resource(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "").Create(p.ctx, &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "previews"},
		Spec:     []byte(`{"kind":"ConfigMap","condition":"object.metadata.name == 'preview-7'","notice":"24h","call":"example.com/keeper"}`),
	})
	must.Succeed(t, err)
}

// awaitNotice waits for the call that was pulled, and remembers the subject that acknowledges it.
func awaitNotice(t *testing.T, p *player, _ string) {
	t.Helper()
	p.ack = p.pulled(t, `with reply "(\$JS\.ACK\.[^"]+)"[^#]+"name":"example.com/keeper"`)
}

// pulled waits for a call, and returns the subject that acknowledges it. The nats command says that
// it subscribes before it does: what is pulled meanwhile does not come, and is pulled again.
func (p *player) pulled(t *testing.T, pattern string) string {
	t.Helper()
	for begun := time.Now(); ; {
		if found := p.calls.said(pattern, 3*time.Second); found != nil {
			return found[1]
		}
		if time.Since(begun) > testkit.Timeout {
			t.Fatalf("waited in vain for a call; the command printed\n%s", p.calls.output())
		}
		select {
		case <-p.calls.ended:
			t.Fatalf("the command has ended with %v, and printed\n%s", p.calls.err, p.calls.output())
		default:
			p.again().wait(t)
		}
	}
}

// withVeto fills in the uid, and a time for the one in the document.
func withVeto(p *player, text string) string {
	text = strings.Replace(text, "01890a5d-…", p.objects[preview.Plural].GetMetadata().GetUid(), 1)
	return strings.Replace(text, "1893456000000000", strconv.FormatInt(time.Now().Add(24*time.Hour).UnixMicro(), 10), 1)
}

// vetoed waits until an evaluation has found the veto.
func vetoed(t *testing.T, p *player, _ string) {
	t.Helper()
	testkit.WaitFor(t, p.ctx, "the veto", func() bool {
		list, err := p.admin.Operations().ExpiryPolicies(p.ctx)
		return err == nil && len(list) == 1 && list[0].GetVetoed() == 1
	})
}

func withAck(p *player, text string) string {
	return strings.Replace(text, "$JS.ACK.coppice-default-finalize.…", p.ack, 1)
}

func withUID(p *player, text string) string {
	return strings.Replace(text, "01890a5d-…", p.objects[pods.Plural].GetMetadata().GetUid(), 1)
}

var hash = regexp.MustCompile(`"plan":\s*"([0-9a-z-]+@\d+)"`)

func rememberPlan(t *testing.T, p *player, out string) {
	t.Helper()
	if m := hash.FindStringSubmatch(out); m != nil {
		p.plan = m[1]
	} else {
		t.Errorf("the plan has no hash: %s", out)
	}
}

func withPlan(p *player, text string) string {
	return regexp.MustCompile(`"plan": "[^"]+"`).ReplaceAllString(text, `"plan": "`+p.plan+`"`)
}
