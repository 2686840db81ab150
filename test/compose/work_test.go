package compose_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// size is how many dependents a cascade removes. Each has an external finalizer.
const size = 10_000

// work are cascades, one after the other, the external finalizer, and a user who creates objects that must stay.
type work struct {
	u         *user
	name      string   // of its namespace, and the prefix of its objects
	operator  []string // its variables
	calls     string   // file to which the finalizer writes
	finalizer func()   // ends it
	stop      chan struct{}
	running   sync.WaitGroup

	mu       sync.Mutex
	err      error
	cascades int             // that are complete
	created  map[string]bool // objects whose creation was acknowledged
}

// newWork starts work that continues until end is called.
func newWork(u *user, name string, operator, finalizer []string) *work {
	u.t.Helper()
	w := &work{u: u, name: name, operator: operator, calls: filepath.Join(u.t.TempDir(), "calls"), stop: make(chan struct{}), created: map[string]bool{}}
	file, err := os.Create(w.calls)
	succeed(u.t, err)
	program := exec.Command(u.clone + "/installation/finalizer")
	program.Env = append(os.Environ(), finalizer...)
	program.Stdout, program.Stderr = file, file
	succeed(u.t, program.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.fail(fmt.Errorf("the finalizer ends: %v", program.Wait()))
	}()
	w.finalizer = func() {
		_ = program.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = file.Close()
	}
	u.t.Cleanup(w.finalizer)
	w.running.Go(func() { w.repeat(w.cascade) })
	w.running.Go(func() { w.repeat(w.create) })
	return w
}

// repeat does a step until the work ends, or an error.
func (w *work) repeat(step func(round int) error) {
	for round := 0; ; round++ {
		if err := step(round); err != nil {
			w.fail(err)
			return
		}
		select {
		case <-w.stop:
			return
		default:
		}
	}
}

// fail records an error that ends the work.
func (w *work) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// check ends the test if the work has ended.
func (w *work) check() {
	w.u.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		text, _ := os.ReadFile(w.calls)
		w.u.t.Fatalf("%v\n%s\n%s", w.err, text[max(0, len(text)-1000):], w.u.logs())
	}
}

// cascade imports an object with many dependents, deletes it, and waits until all are gone.
func (w *work) cascade(round int) error {
	var objects strings.Builder
	owner := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": fmt.Sprintf("%s-%d", w.name, round), "uid": fmt.Sprintf("%s-%d", w.name, round)}
	encode := json.NewEncoder(&objects)
	object := func(kind, name string, extra map[string]any) error {
		metadata := map[string]any{"name": name, "uid": name, "namespace": w.name}
		maps.Copy(metadata, extra)
		return encode.Encode(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata})
	}
	if err := object("ConfigMap", owner["name"].(string), nil); err != nil {
		return err
	}
	for i := range size {
		if err := object("Secret", fmt.Sprintf("%s-%d-%d", w.name, round, i), map[string]any{
			"finalizers": []string{"example.com/bucket"}, "ownerReferences": []any{owner},
		}); err != nil {
			return err
		}
	}
	if err := w.insist(objects.String(), "import", "-f", "-"); err != nil {
		return err
	}
	if err := w.insist("", "delete", "configmap/"+owner["name"].(string), "-n", w.name, "--ignore-not-found", "--wait"); err != nil {
		return err
	}
	for { // --wait may have returned early if its connection was lost
		left, err := w.u.coppice(w.operator, "", "get", "secrets,configmaps", "-n", w.name, "-o", "name")
		if err == nil && left == "" {
			break
		}
		if w.u.t.Context().Err() != nil {
			return fmt.Errorf("cascade %d: %w", round, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cascades++
	return nil
}

// insist repeats a command that may fail while a service is killed.
func (w *work) insist(input string, args ...string) error {
	ctx, cancel := context.WithTimeout(w.u.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		_, err := w.u.coppice(w.operator, input, args...)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// create creates an object, which may fail.
func (w *work) create(round int) error {
	name := fmt.Sprintf("kept-%d", round)
	_, err := w.u.coppice(w.operator, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "`+name+`", "namespace": "`+w.name+`-kept"}}`, "create", "-f", "-")
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.created["configmaps/"+name] = true
	}
	return nil
}

// called returns how often the finalizer was called for each object.
func (w *work) called() map[string]int {
	w.u.t.Helper()
	text, err := os.ReadFile(w.calls)
	succeed(w.u.t, err)
	calls := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "cleaning up after secrets/"); ok && strings.HasSuffix(name, "\n") {
			calls[strings.TrimSpace(name)]++
		}
	}
	return calls
}

// progress waits until the finalizer was called for more objects, and the user has created more.
func (w *work) progress(what string) {
	w.u.t.Helper()
	const objects, creations = 300, 3
	kept := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.created)
	}
	calls, before := len(w.called()), kept()
	w.u.waitFor("cascades to continue "+what, func() (string, bool) {
		more, since := len(w.called())-calls, kept()-before
		w.check()
		return fmt.Sprintf("%d calls, %d creations", more, since), more >= objects && since >= creations
	})
}

// kill kills the process of a container while cascades run, and waits until the container engine has started it again,
// it is healthy, and cascades go on.
func (w *work) kill(c container) {
	w.u.t.Helper()
	w.progress("before the loss of " + c.service)
	before := c.inspect()
	succeed(w.u.t, syscall.Kill(before.State.Pid, syscall.SIGKILL))
	w.u.waitFor(c.service+" to be started again", func() (string, bool) {
		text, healthy := c.healthy()
		now := c.inspect()
		return text, healthy && now.RestartCount > before.RestartCount && now.State.Pid != before.State.Pid
	})
	w.progress("after the loss of " + c.service)
	w.u.t.Logf("%s was killed: %d objects finalized", c.service, len(w.called()))
}

// writer returns the service of the graph service that writes the realm.
func (w *work) writer(containers map[string]container) string {
	w.u.t.Helper()
	service := ""
	w.u.waitFor("a writer", func() (string, bool) {
		out, err := w.u.coppice(w.operator, "", "realm", "list")
		for name, c := range containers {
			if id := w.u.engine.Podman(w.u.t, "inspect", "--format", "{{.Id}}", c.name); strings.Contains(out, " "+id[:12]+"/") {
				service = name
			}
		}
		return fmt.Sprint(out, err), service != ""
	})
	return service
}

// end ends the work when its cascade is complete, and checks that nothing of it was lost.
func (w *work) end() {
	w.u.t.Helper()
	close(w.stop)
	done := make(chan struct{})
	go func() { w.running.Wait(); close(done) }()
	for calls, ended := -1, false; !ended; {
		w.u.waitFor("the last cascade to continue or end", func() (string, bool) {
			w.check()
			before := calls
			calls = len(w.called())
			select {
			case <-done:
				ended = true
			default:
			}
			return fmt.Sprintf("%d objects were finalized", calls), ended || calls > before
		})
	}
	w.check()
	w.finalizer()
	calls := w.called()
	if want := w.cascades * size; len(calls) != want || w.cascades == 0 {
		w.u.t.Errorf("%d cascades removed %d objects, and the finalizer was called for %d", w.cascades, want, len(calls))
	}
	left, err := w.u.coppice(w.operator, "", "get", "configmaps", "-n", w.name+"-kept", "-o", "name")
	succeed(w.u.t, err)
	have := strings.Fields(left)
	for name := range w.created {
		if !slices.Contains(have, name) {
			w.u.t.Errorf("the creation of %s was acknowledged, and the object is gone", name)
		}
	}
	if out, err := w.u.coppice(w.operator, "", "verify"); err != nil || !strings.HasPrefix(out, "state equals the log") {
		w.u.t.Errorf("coppice verify prints %s (%v)", out, err)
	}
	again := 0
	for _, n := range calls {
		again += n - 1
	}
	w.u.t.Logf("%d cascades of %d objects, %d calls repeated; %d objects created and kept", w.cascades, size, again, len(w.created))
}
