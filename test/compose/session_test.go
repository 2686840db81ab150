package compose_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/tools/image/engine"
)

// patience is how long a test waits for one condition.
const patience = 3 * time.Minute

// A user follows the commands of deploy/compose/README.md in a shell, in a clone of the repository.
type user struct {
	t      *testing.T
	engine *engine.Engine
	clone  string
	env    []string // of the shell, and of commands of the test
	stdin  *bufio.Writer
	out    *bufio.Reader
}

// newUser clones the repository to a file system of its own: what Coppice reports of its disk is not of this machine.
func newUser(t *testing.T, e *engine.Engine, compose string) *user {
	t.Helper()
	u := &user{t: t, engine: e, clone: filepath.Join(e.Dir, "clone")}
	u.env = append(e.Env, "PATH="+programs(t, compose)+":"+os.Getenv("PATH"))
	succeed(t, os.Mkdir(u.clone, 0o755))
	u.host("mount", "-t", "tmpfs", "-o", "size=4g,mode=0755", "tmpfs", u.clone)
	t.Cleanup(func() { u.host("umount", "--lazy", u.clone) })
	u.host("git", "clone", "--quiet", abs(root), u.clone)
	shell := exec.Command("bash")
	shell.Dir, shell.Env = u.clone, u.env
	stdin, err := shell.StdinPipe()
	succeed(t, err)
	r, w, err := os.Pipe()
	succeed(t, err)
	shell.Stdout, shell.Stderr = w, w
	succeed(t, shell.Start())
	succeed(t, w.Close())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = shell.Process.Kill()
		_ = shell.Wait()
		_ = r.Close()
	})
	u.stdin, u.out = bufio.NewWriter(stdin), bufio.NewReader(r)
	return u
}

// blocks returns the commands of the document, in order.
func blocks(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory, "README.md"))
	succeed(t, err)
	for _, m := range regexp.MustCompile("(?ms)^```bash\n(.*?)^```$").FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	return list
}

const endOfBlock = "-- end of block --"

// enter enters a block of commands, each of which must succeed, and returns what they print.
func (u *user) enter(block string) (out string) {
	u.t.Helper()
	file := filepath.Join(u.engine.Dir, "block")
	succeed(u.t, os.WriteFile(file, []byte(block), 0o600))
	_, err := u.stdin.WriteString("set -e; . " + file + " </dev/null; set +e; echo; echo '" + endOfBlock + "'\n")
	succeed(u.t, err)
	succeed(u.t, u.stdin.Flush())
	for {
		line, err := u.out.ReadString('\n')
		if line == endOfBlock+"\n" {
			return out
		}
		if out += line; err != nil {
			u.t.Fatalf("a command fails of\n%s\nit printed\n%s\n%s", block, out, u.logs())
		}
	}
}

// host runs a program of this machine, which must succeed.
func (u *user) host(name string, args ...string) {
	u.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		u.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// coppice runs a command as a user of the installation, whose variables are env, and returns what it prints.
func (u *user) coppice(env []string, input string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(u.t.Context(), "coppice", args...)
	for _, v := range u.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			c.Path = filepath.Join(strings.Split(path, ":")[0], "coppice")
		}
	}
	c.Err = nil // of the PATH of this process
	c.Env, c.Stdin, c.Stdout, c.Stderr = append(os.Environ(), env...), strings.NewReader(input), &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", errors.Join(err, errors.New(stderr.String()))
	}
	return stdout.String(), nil
}

// logs returns the last lines that each container has written.
func (u *user) logs() (text string) {
	names, _ := u.engine.Try("", "ps", "--all", "--format", "{{.Names}}")
	for _, name := range strings.Fields(names) {
		out, _ := u.engine.Command("podman", "logs", "--tail", "8", name).CombinedOutput()
		text += "log of " + name + ":\n" + string(out)
	}
	return text
}

// waitFor waits until a condition is true. state says what it was at the end.
func (u *user) waitFor(what string, is func() (state string, ok bool)) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		state, ok := is()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			u.t.Fatalf("no end of waiting for %s: %s\n%s", what, state, u.logs())
		}
	}
}
