package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

const installation = "docs/install.md"

// sectionsOf returns the scripts in each section of a document.
func sectionsOf(t *testing.T, file string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module, file))
	must.Succeed(t, err)
	sections := map[string][]string{}
	for _, text := range strings.Split(string(data), "\n## ")[1:] {
		heading, _, _ := strings.Cut(text, "\n")
		blocks, _ := split(file, text)
		for _, b := range blocks {
			if b.lang == script {
				sections[heading] = append(sections[heading], b.text)
			}
		}
	}
	return sections
}

// ownMachine runs a script on what is a machine of its own to programs: its ports and processes are its own, and
// what it puts into /usr/local/bin. Its processes end with it.
const ownMachine = `ip link set lo up && mount -t tmpfs none /usr/local/bin && exec bash -eu -o pipefail "$0"`

// Each way of docs/install.md, followed word by word in an empty directory, leads to the first finished cascade.
func TestInstallation(t *testing.T) {
	nightly.Test(t, nightly.OwnMachine)
	sections := sectionsOf(t, installation)
	server := t.TempDir()
	out, err := exec.Command("go", "build", "-o", server, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		t.Fatalf("nats-server: %v: %s", err, out)
	}
	root, err := filepath.Abs(module)
	must.Succeed(t, err)
	for _, way := range []string{"One process", "Plain servers"} {
		t.Run(way, func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "script")
			text := fmt.Sprintf("cd %q\n", root)
			for i, section := range []string{"Get the program", way, "The first cascade"} {
				if len(sections[section]) == 0 {
					t.Fatalf("%s has no commands in its section %q", installation, section)
				}
				if i == 1 {
					text += fmt.Sprintf("cd %q\n", dir)
				}
				text += strings.Join(sections[section], "\n")
			}
			must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
			c := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", ownMachine, file)
			c.Env = append(os.Environ(), "PATH=/usr/local/bin"+string(os.PathListSeparator)+server+string(os.PathListSeparator)+os.Getenv("PATH"), "COPPICE_HTTP=")
			out, err := c.CombinedOutput()
			for _, want := range []string{"\nremoved 3/3\n", "\nstate equals the log: "} {
				if err != nil || !strings.Contains(string(out), want) {
					t.Fatalf("%v: it does not print %q:\n%s%s", err, want, out, logs(t, dir))
				}
			}
		})
	}
}

// logs returns the logs of services and servers.
func logs(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	must.Succeed(t, err)
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		fmt.Fprintf(&all, "== %s\n%s", filepath.Base(file), data)
	}
	return all.String()
}
