package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// network connects machines by a bridge, which is in a network namespace of its own. Machine i has the address 10.0.0.i.
func network(t *testing.T, machines ...*machine) {
	t.Helper()
	c := exec.Command("unshare", "--net", "--kill-child", "--fork", "cat")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := c.StdinPipe()
	succeed(t, err)
	succeed(t, c.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Wait()
	})
	own, err := os.Readlink("/proc/self/ns/net")
	succeed(t, err)
	waitFor(t, "the namespace of the bridge", func() bool {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.Process.Pid))
		return err == nil && ns != own
	})
	script := "ip link add name bridge type bridge\nip link set bridge up\n"
	for i, m := range machines {
		script += fmt.Sprintf("ip link add name to%[1]d type veth peer name eth0 netns %[2]d\nip link set to%[1]d master bridge up\n", i+1, m.pid)
	}
	out, err := exec.Command("nsenter", "--target", fmt.Sprint(c.Process.Pid), "--net", "sh", "-euc", script).CombinedOutput()
	if err != nil {
		t.Fatalf("network: %v: %s", err, out)
	}
	for i, m := range machines {
		m.run(fmt.Sprintf("ip address add 10.0.0.%d/24 dev eth0; ip link set eth0 up", i+1))
	}
}

// Three servers, installed as deploy/systemd/README.md says, continue when the one with the writer loses its power.
func TestThreeServers(t *testing.T) {
	var machines []*machine
	blocks := map[string][]string{}
	for _, b := range readme(t) {
		blocks[b.heading] = append(blocks[b.heading], b.text)
	}
	commands := blocks["Three servers"]
	if len(commands) != 4 {
		t.Fatalf("README.md has %d blocks of commands for three servers, and not 4", len(commands))
	}
	const first = "name=nats-1 address=10.0.0.1\n"
	if !strings.HasPrefix(commands[2], first) {
		t.Fatalf("the first line is not %q of\n%s", first, commands[2])
	}
	for i := range 3 {
		m := boot(t)
		machines = append(machines, m)
		m.bring(oldDeb, "coppice_old.deb")
		m.run(blocks["Coppice on a plain server"][0] + blocks["The NATS server"][0])
		if i == 0 {
			configure := blocks["The NATS server"][1] + blocks["The services"][0]
			m.run(regexp.MustCompile(`(?m)^(systemctl enable|coppice ready).*$`).ReplaceAllString(configure, "") + commands[0])
		} else {
			m.bring(filepath.Join(machines[0].dir, "coppice-servers.tar"), "coppice-servers.tar")
			m.run(commands[1])
		}
		m.run(strings.Replace(commands[2], first, fmt.Sprintf("name=nats-%[1]d address=10.0.0.%[1]d\n", i+1), 1))
	}
	network(t, machines...)
	lines := strings.SplitAfter(commands[3], "\n")
	for i, m := range machines {
		m.run(lines[0])
		if i == 0 {
			m.run(lines[1])
		}
	}
	client := operator + " " + strings.TrimSpace(machines[0].run("grep ^NATS_URL= /etc/coppice/coppice.env"))
	for _, m := range machines {
		m.run(lines[2])
	}
	machines[0].cascadeSays(client, "removed ", "state equals the log")

	writer := -1
	for i, m := range machines {
		if strings.Contains(m.run(`exec 3<>/dev/tcp/127.0.0.1/9440; printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3; cat <&3`), "default: writer") {
			writer = i
		}
	}
	if writer < 0 {
		t.Fatal("no graph service is the writer")
	}
	succeed(t, syscall.Kill(machines[writer].pid, syscall.SIGKILL))
	left := append(machines[:writer:writer], machines[writer+1:]...)
	for _, m := range left {
		m.run("coppice ready --wait 2m")
	}
	waitFor(t, "another writer", func() bool {
		return strings.Contains(left[0].try("export "+client+"; coppice get namespaces"), "no namespaces found")
	})
	left[1].cascadeSays(client, "removed ", "state equals the log")
}
