package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for one condition.
const patience = 2 * time.Minute

// machine is a systemd that runs as process 1 in namespaces of its own: see testdata/machine.sh. It has no network
// but what link adds. What it writes is discarded at the end.
type machine struct {
	t   *testing.T
	dir string // what the machine sees as /media
	pid int    // of its systemd
}

// boot starts a machine with the programs that an operator brings to it.
func boot(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	group := fmt.Sprintf("coppice-packages-%d-%s", os.Getpid(), filepath.Base(m.dir)+filepath.Base(filepath.Dir(m.dir)))
	c := exec.Command("unshare", "--kill-child", "--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "sh", "testdata/machine.sh", t.TempDir(), m.dir, group)
	log := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(log)
	succeed(t, err)
	c.Stdout, c.Stderr = file, file
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	succeed(t, c.Start())
	exited := make(chan error, 1)
	go func() { exited <- c.Wait() }()
	t.Cleanup(func() {
		if m.pid != 0 {
			_ = syscall.Kill(m.pid, syscall.SIGKILL) // and with it all processes of its namespace, and unshare
		} else {
			_ = c.Process.Kill()
		}
		<-exited
		_ = file.Close()
		out, err := exec.Command("unshare", "--mount", "sh", "-euc", `mount --make-rprivate /; mount -t cgroup2 cgroup2 "$1"; find "$1/$2" -depth -type d -exec rmdir {} +`,
			"clean", t.TempDir(), group).CombinedOutput()
		if err != nil {
			t.Errorf("the control group %s is left: %v: %s", group, err, out)
		}
	})
	state := ""
	waitFor(t, "systemd to run", func() bool {
		select {
		case err := <-exited:
			exited <- err
			data, _ := os.ReadFile(log)
			t.Fatalf("the machine has ended: %v\n%s", err, data)
		default:
		}
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", c.Process.Pid))
		_, _ = fmt.Sscan(string(data), &m.pid)
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", m.pid))
		if string(name) == "systemd\n" {
			state = m.try("systemctl is-system-running --wait")
		}
		return state == "running\n" || state == "degraded\n" // by units of this machine
	})
	m.bring(natsServer, "nats-server")
	m.run("install -m 0755 /media/nats-server /usr/local/bin/nats-server")
	return m
}

// bring copies a file to /media of the machine.
func (m *machine) bring(from, name string) {
	m.t.Helper()
	data, err := os.ReadFile(from)
	succeed(m.t, err)
	succeed(m.t, os.WriteFile(filepath.Join(m.dir, name), data, 0o755))
}

// command returns a program that runs in the machine, as root.
func (m *machine) command(args ...string) *exec.Cmd {
	c := exec.Command("nsenter", append([]string{"--target", fmt.Sprint(m.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "env", "--chdir=/media"}, args...)...)
	c.Env = []string{"HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}
	return c
}

// run runs a script, which must succeed, and returns what it prints.
func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.command("bash", "-euo", "pipefail", "-c", script).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s%s", script, err, out, m.journal())
	}
	return string(out)
}

// try runs a script that may fail.
func (m *machine) try(script string) string {
	out, _ := m.command("bash", "-euo", "pipefail", "-c", script).CombinedOutput()
	return string(out)
}

// prints compares what a script prints with what is expected, without the space around them.
func (m *machine) prints(script, want string) {
	m.t.Helper()
	if got := m.try(script); strings.TrimSpace(got) != strings.TrimSpace(want) {
		m.t.Errorf("%s prints\n%s\nexpected\n%s%s", script, got, want, m.journal())
	}
}

// journal returns the last lines that the units have logged.
func (m *machine) journal() string {
	return "journal:\n" + m.try("journalctl --no-pager -n 40 -o short")
}

// session is a shell of an operator, in which the commands of a document are entered one block after the other.
type session struct {
	m     *machine
	stdin *bufio.Writer
	out   *bufio.Reader
}

const endOfBlock = "-- end of block --"

func (m *machine) session() *session {
	m.t.Helper()
	c := m.command("bash")
	stdin, err := c.StdinPipe()
	succeed(m.t, err)
	r, w, err := os.Pipe()
	succeed(m.t, err)
	c.Stdout, c.Stderr = w, w
	succeed(m.t, c.Start())
	succeed(m.t, w.Close())
	m.t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = r.Close()
	})
	return &session{m: m, stdin: bufio.NewWriter(stdin), out: bufio.NewReader(r)}
}

// enter enters a block of commands, each of which must succeed, and returns what they print.
func (s *session) enter(block string) (out string) {
	s.m.t.Helper()
	succeed(s.m.t, os.WriteFile(filepath.Join(s.m.dir, "block"), []byte(block), 0o600))
	_, err := s.stdin.WriteString("set -e; . /media/block </dev/null; set +e; echo '" + endOfBlock + "'\n")
	succeed(s.m.t, err)
	succeed(s.m.t, s.stdin.Flush())
	for {
		line, err := s.out.ReadString('\n')
		if strings.HasSuffix(line, endOfBlock+"\n") {
			out += strings.TrimSuffix(line, endOfBlock+"\n")
			return strings.ReplaceAll(out, "\r\n", "\n") // of a terminal, which apt-get gives to dpkg
		}
		if out += line; err != nil {
			s.m.t.Fatalf("a command fails of\n%s\nit printed\n%s%s", block, out, s.m.journal())
		}
	}
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until a condition is true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no end of waiting for %s", what)
		}
	}
}
