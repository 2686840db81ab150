package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// unrecorded are the verbs of which the log has nothing, since they change no object of a realm.
var unrecorded = []string{
	bus.VerbGet, bus.VerbList, bus.VerbWatch, bus.VerbResolve, bus.VerbPlan, bus.VerbStatus, bus.VerbReadLog, bus.VerbReadPast, bus.VerbReadWarnings, bus.VerbBrakes,
	bus.VerbConsumeFinalizer, bus.VerbConsumeAgent, bus.VerbConsumeExpiry, bus.VerbListConsumers, bus.VerbListFinalizers, bus.VerbWatchGraph,
	bus.VerbListParked, bus.VerbRetryParked, bus.VerbDropParked, bus.VerbVerify, bus.VerbArchive, bus.VerbLease,
	bus.VerbCreateRealm, bus.VerbDeleteRealm, bus.VerbListRealms, // of the list of realms: the graph service logs them
}

// ofServices are the verbs of commands of Coppice's own services.
var ofServices = []string{
	bus.VerbGenesis, bus.VerbOrigin, bus.VerbEpoch, bus.VerbAcceptLoss, bus.OpPropose, bus.OpOrphan, bus.OpDrain, bus.OpFinish, bus.OpCycles,
	"cover", "unblock", // services/graph/work.go
}

// elsewhere are verbs that no log of a script has at its end, with the test that reads such a log.
var elsewhere = map[string]string{
	bus.VerbDeleteUnreadable: "TestUnreadableObject of services/graph", // an object that cannot be read does not come from a command
}

// audited are the verbs in the logs of all scripts, with actors.
type audited struct {
	mu    sync.Mutex
	verbs map[string][]string
}

// read reads the log of each realm of a stack as 'coppice audit' writes it, and checks that each line names an actor and a
// verb, and each command what it did.
func (a *audited) read(s *stack) error {
	if s.running == nil {
		return nil
	}
	nc, err := s.running.Conn(bus.RoleOperator)
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	realms, err := client.New(nc, client.WithActor(bus.RoleOperator)).Operations().ListRealms(ctx)
	if err != nil {
		return err
	}
	for _, r := range realms {
		var out, errs bytes.Buffer
		code := Main([]string{"audit", "--realm", r.GetName(), "--server", s.running.Server().URL(), "--request-actor", "auditor"}, strings.NewReader(""), &out, &errs)
		if code != 0 {
			return fmt.Errorf("audit of realm %s: %s", r.GetName(), &errs)
		}
		for text := range strings.Lines(out.String()) {
			var line struct{ Type, Actor, Verb, Result string }
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				return err
			}
			if line.Type == "gap" {
				continue
			}
			if line.Actor == "" || line.Verb == "" || line.Result == "" || line.Result == "Recorded" {
				return fmt.Errorf("realm %s: a line of the audit does not say who did what: %s", r.GetName(), text)
			}
			a.add(line.Verb, line.Actor)
		}
	}
	return nil
}

func (a *audited) add(verb, actor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.verbs == nil {
		a.verbs = map[string][]string{}
	}
	if !slices.Contains(a.verbs[verb], actor) {
		a.verbs[verb] = append(a.verbs[verb], actor)
	}
}

// check checks that the logs of all scripts have every verb that changes something, and no other.
func (a *audited) check(t *testing.T) {
	t.Helper()
	if f := flag.Lookup("test.run"); t.Failed() || f != nil && strings.Contains(f.Value.String(), "/") {
		return // not all scripts ran
	}
	want := append(slices.Clone(ofServices), slices.DeleteFunc(bus.Verbs(), func(v string) bool { return slices.Contains(unrecorded, v) })...)
	for _, verb := range want {
		if len(a.verbs[verb]) == 0 && elsewhere[verb] == "" {
			t.Errorf("no log of a script has a command with the verb %s: write a script, or add the verb to unrecorded", verb)
		}
	}
	for verb, actors := range a.verbs {
		if !slices.Contains(want, verb) {
			t.Errorf("%v have sent commands with the verb %s, which is none of a log", actors, verb)
		}
	}
	if got := a.verbs[bus.VerbVeto]; !slices.Contains(got, "ana") {
		t.Errorf("%v have answered notices, want ana among them", got)
	}
}
