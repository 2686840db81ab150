package containers_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const readme = root + "/deploy/docker/README.md"

// The commands of deploy/docker/README.md, followed word by word in a clone of the repository, lead to a finished cascade,
// keep the data over an upgrade, and leave nothing. They have ports and processes of their own.
func TestReadme(t *testing.T) {
	e := newImages(t)
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range regexp.MustCompile("(?ms)^```bash\n(.*?)^```$").FindAllSubmatch(data, -1) {
		text.Write(m[1])
	}
	clone, file := filepath.Join(e.Dir, "clone"), filepath.Join(e.Dir, "script")
	output(t, root, "git", "clone", "--quiet", ".", clone)
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	nats := regexp.MustCompile(`docker\.io/library/nats:\S+`).FindString(text.String())
	e.nats(t, nats)
	script := e.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `ip link set lo up && exec bash -eu -o pipefail -x "$0"`, file)
	script.Dir = clone
	out, err := script.CombinedOutput()
	for _, want := range []string{"\nremoved 2/2\n", "\ncoppice 0.1.0 ", "\ncoppice 0.1.1 ", "\nstate equals the log: ", "\ndefault"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v: the commands of %s do not print %q:\n%s", err, readme, want, out)
		}
	}
	e.Podman(t, "rmi", nats, "localhost/coppice:0.1.0", "localhost/coppice:0.1.1")
	for _, list := range [][]string{{"ps", "--all", "--quiet"}, {"volume", "ls", "--quiet"}, {"images", "--quiet"}} {
		if left := e.Podman(t, list...); left != "" {
			t.Errorf("the commands leave, by podman %s,\n%s", strings.Join(list, " "), left)
		}
	}
}

// nats makes a stand-in for the image of the NATS server, which no registry is needed for.
func (e *images) nats(t *testing.T, name string) {
	t.Helper()
	container := e.Buildah(t, "from", "scratch")
	e.Buildah(t, "copy", container, filepath.Join(e.NATSServer(t, root), "nats-server"), "/nats-server")
	e.Buildah(t, "config", "--entrypoint", `["/nats-server"]`, container)
	e.Buildah(t, "commit", "--rm", container, name)
}
