package compose_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/coppice-gc/coppice/tools/image/engine"
)

// standIns makes images with the names that cluster.yaml has by default, which no registry is needed for: of the NATS
// server of this module, and of the Prometheus of Debian. As the real ones do, they have a shell and wget.
func standIns(t *testing.T, e *engine.Engine) {
	t.Helper()
	project := load(t, nil, "cluster.yaml")
	nats := standIn(t, e, "usr/local/bin", filepath.Join(e.NATSServer(t, root), "nats-server"))
	e.Buildah(t, "config", "--env", "PATH=/usr/local/bin:/bin", nats)
	e.Buildah(t, "commit", "--rm", nats, project.Services["nats-1"].Image)

	prometheus := standIn(t, e, "bin", program(t, "prometheus"), program(t, "promtool"))
	e.Buildah(t, "config", "--env", "PATH=/bin", "--user", "nobody", "--entrypoint", `["/bin/prometheus"]`, prometheus)
	e.Buildah(t, "commit", "--rm", prometheus, project.Services["prometheus"].Image)
}

// standIn returns a container of buildah with programs in a directory, the libraries that they need, and busybox.
func standIn(t *testing.T, e *engine.Engine, dir string, programs ...string) string {
	t.Helper()
	container := e.Buildah(t, "from", "scratch")
	mounted := e.Buildah(t, "mount", container)
	for _, d := range []string{"bin", "etc", dir} {
		succeed(t, os.MkdirAll(filepath.Join(mounted, d), 0o755))
	}
	succeed(t, os.WriteFile(filepath.Join(mounted, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"), 0o644))
	for _, link := range []string{"sh", "wget"} {
		succeed(t, os.Symlink("busybox", filepath.Join(mounted, "bin", link)))
	}
	copied := map[string]string{program(t, "busybox"): "/bin/busybox"}
	for _, p := range programs {
		copied[p] = "/" + dir + "/" + filepath.Base(p)
	}
	for p, to := range copied {
		e.Buildah(t, "copy", container, p, to)
		out, _ := exec.Command("ldd", p).Output() // fails if the program is static
		for _, m := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
			real, err := filepath.EvalSymlinks(m[1])
			succeed(t, err)
			e.Buildah(t, "copy", container, real, m[1])
		}
	}
	e.Buildah(t, "umount", container)
	return container
}

// program returns the path of a program of this machine.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	succeed(t, err)
	real, err := filepath.EvalSymlinks(path)
	succeed(t, err)
	return real
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// docker is a script that does what Docker would do, with podman.
const docker = `#!/bin/bash
if [ "$1" = compose ]; then
  shift
  exec bash "$(dirname "$0")/compose" "$@"
fi
exec podman "$@"
`

// podmanCompose runs podman-compose. Its version 1.0.3 continues after a command that failed, and exits with 0.
const podmanCompose = `
out=$(mktemp)
podman-compose "$@" 2>&1 | tee "$out"
code=${PIPESTATUS[0]}
! grep -q '^exit code: [1-9]' "$out" || code=1
rm "$out"
exit $code
`

// dockerCompose runs Docker Compose, for which podman listens at a socket.
const dockerCompose = `
export DOCKER_HOST=unix:///run/coppice-test.sock
if ! [ -S /run/coppice-test.sock ]; then
  podman system service --time 0 "$DOCKER_HOST" >/dev/null 2>&1 &
  until [ -S /run/coppice-test.sock ]; do
    kill -0 $! || exit 1
  done
fi
docker-compose "$@" 2>&1
`

// programs makes a directory with the programs of a user, and returns it: coppice, and docker.
func programs(t *testing.T, compose string) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-C", root, "-o", dir+"/", "./cmd/coppice")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build coppice: %v\n%s", err, out)
	}
	succeed(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o755))
	succeed(t, os.WriteFile(filepath.Join(dir, "compose"), []byte(compose), 0o600))
	return dir
}
