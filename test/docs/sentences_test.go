package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// complete matches commands in sentences that have arguments, so that a reader can run them.
var complete = regexp.MustCompile(`\s(-|[A-Z]|\S*[/:])`)

// elsewhereRun are complete commands in sentences that TestSentenceCommands does not run, with the reason.
var elsewhereRun = map[string]string{
	"coppice rebuild --data":                      "has no directory; cmd/coppice/testdata/script/rebuild.txtar runs it with one",
	"coppice rebuild --state":                     "as above",
	"go run ./test/bench one realms --realms 200": "takes a minute; TestOne of test/bench runs it with fewer realms",
	`coppice delete configmaps/web -n shop --ignore-read-errors --reason "ticket 42"`: "needs an object that cannot be read; cmd/coppice/testdata/script/unreadable.txtar runs it with one",
}

// The complete commands in the sentences and tables of docs/operations.md and docs/security.md work. Of a command
// only words in capital letters and addresses are replaced.
func TestSentenceCommands(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.Minutes)
	s := &shell{player: start(t, "", false)}
	s.write(t, "in.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, finalizers: [example.com/bucket]}\n")
	s.succeeds(t, "coppice apply -f in.yaml")
	s.succeeds(t, "coppice realm create gone")
	s.succeeds(t, "coppice realm delete gone --confirm gone") // so that the archive has entries
	archive := "file://" + filepath.Join(s.dir, "archive")
	replaced := strings.NewReplacer("FILE", "new.secret", "KIND/NAME", "pods/web-1", "KIND", "pods", "URL", archive, "SRC DST", archive+" file://"+filepath.Join(s.dir, "copy"), "NAME", "another", "DIR", "dir")

	p, server := deployed(t)
	p.env = []string{"NATS_PASSWORD=" + server.Password(bus.RoleGraph)}
	p.start(t, "coppice archive copy "+archive+" nats://bucket --user graph", "").wait(t)

	_, _, all := pages(t)
	seen := map[string]bool{}
	for _, c := range all {
		if c.file != operations && c.file != "docs/security.md" || !c.inline || !complete.MatchString(c.text) || seen[c.text] {
			continue
		}
		seen[c.text] = true
		text := replaced.Replace(c.text)
		switch {
		case elsewhereRun[c.text] != "":
		case strings.Contains(text, "coppice up"):
			up := &shell{player: &player{ctx: s.ctx, dir: t.TempDir()}}
			t.Cleanup(func() { up.end(t) })
			up.run(t, text+" --port -1 &")
			testkit.WaitFor(t, s.ctx, text+" to be ready", func() bool { return strings.Contains(up.output(), "ready in ") })
		case strings.Contains(text, "nats://"):
			b := p.start(t, text, "")
			if b.wait(t); b.err != nil {
				t.Errorf("%s: %v\n%s", c, b.err, b.output())
			}
		default:
			on := s
			if strings.HasPrefix(text, "coppice bench ") { // starts what it measures
				on = &shell{player: &player{ctx: s.ctx, dir: s.dir}}
			}
			if on.run(t, text); on.err != nil {
				t.Errorf("%s: %v\n%s", c, on.err, on.output())
			}
			on.forget()
		}
	}
	for text := range elsewhereRun {
		if !seen[text] {
			t.Errorf("no document has the command %s: remove it here", text)
		}
	}
}
