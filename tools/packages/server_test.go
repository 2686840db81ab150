package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The units that a package contains, and the example of one for NATS.
var (
	services = []string{"coppice-graph", "coppice-processor", "coppice-finalizers", "coppice-scanner"}
	allUnits = append([]string{"coppice-up"}, services...)
)

const natsUnit = "/usr/share/doc/coppice/examples/nats-server.service"

// block is a block of commands of deploy/systemd/README.md.
type block struct{ heading, text string }

var fence = regexp.MustCompile("(?ms)^(#+ [^\n]+)$|^```bash\n(.*?)^```$")

// readme returns the blocks of commands of deploy/systemd/README.md that are entered on a Debian server: without the
// one that builds the packages, as TestMain does, and the line for other systems.
func readme(t *testing.T) (blocks []block) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy/systemd/README.md"))
	succeed(t, err)
	heading, left := "", 0
	for _, m := range fence.FindAllStringSubmatch(string(data), -1) {
		if m[1] != "" {
			heading = strings.TrimLeft(m[1], "# ")
			continue
		}
		var lines []string
		for line := range strings.Lines(m[2]) {
			if line == "go run -C tools/packages . -o dist\n" || line == "dnf install -y ./coppice-*.rpm\n" {
				left++
				continue
			}
			lines = append(lines, line)
		}
		if len(lines) > 0 {
			blocks = append(blocks, block{heading, strings.Join(lines, "")})
		}
	}
	if left != 2 {
		t.Fatalf("%d lines of README.md are left out, and not 2", left)
	}
	return blocks
}

// section enters the commands below a heading, which must be as many blocks as expected, and calls after each block.
func (s *session) section(blocks *[]block, heading string, after ...func(printed string)) {
	t := s.m.t
	t.Helper()
	for i, check := range after {
		if len(*blocks) == 0 || (*blocks)[0].heading != heading {
			t.Fatalf("README.md has %d blocks below %q, and not %d", i, heading, len(after))
		}
		check(s.enter((*blocks)[0].text))
		*blocks = (*blocks)[1:]
	}
}

// firstCascade returns the commands of docs/install.md that delete a Deployment with everything that it owns.
func firstCascade(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs/install.md"))
	succeed(t, err)
	_, text, _ := strings.Cut(string(data), "\n## The first cascade\n")
	var commands []string
	for _, m := range regexp.MustCompile("(?ms)^```bash\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		commands = append(commands, m[1])
	}
	if !strings.Contains(strings.Join(commands, ""), "coppice delete deployment/web") {
		t.Fatal("docs/install.md has no first cascade")
	}
	return strings.Join(commands, "")
}

// cascade runs the first cascade, and checks that its objects are gone.
func (m *machine) cascade(environment string) {
	m.t.Helper()
	m.cascadeSays(environment, "removed 3/3", "state equals the log")
}

// cascadeSays is cascade that prints other lines. With several graph services a replica may answer, which does not
// know the newest objects yet.
func (m *machine) cascadeSays(environment string, lines ...string) {
	m.t.Helper()
	out := m.run("export " + environment + "\n" + firstCascade(m.t))
	for _, says := range lines {
		if !strings.Contains(out, says) {
			m.t.Errorf("the cascade does not print %q:\n%s", says, out)
		}
	}
	waitFor(m.t, "the objects to be gone", func() bool {
		return strings.Contains(m.try("export "+environment+"; coppice get deployments,replicasets,pods"), "no deployments.apps, replicasets.apps, pods in namespace default")
	})
}

const (
	operator   = "NATS_USER=operator NATS_PASSWORD_FILE=/etc/coppice/credentials/operator"
	operatorUp = "XDG_CONFIG_HOME=/var/lib/coppice/up/users NATS_CONTEXT=operator"
)

// mainPIDs returns the process of each service.
func (m *machine) mainPIDs() string {
	return m.run("systemctl show -P MainPID " + strings.Join(services, " "))
}

// installed checks a package that was just installed: it starts nothing, and its units are correct and confined.
func (m *machine) installed() {
	t := m.t
	t.Helper()
	for _, unit := range allUnits {
		m.prints("systemctl is-enabled "+unit+" || true", "disabled")
		m.prints("systemctl is-active "+unit+" || true", "inactive")
		path := "/usr/lib/systemd/system/" + unit + ".service"
		m.prints("systemd-analyze verify "+path, "")
		m.confined(path)
	}
	m.confined(natsUnit)
	m.prints("id -un coppice; getent passwd coppice | cut -d: -f6,7", "coppice\n/var/lib/coppice:/usr/sbin/nologin")
	m.prints("stat -c '%U %a' /etc/coppice/credentials /etc/coppice/graph.env /var/lib/coppice", "root 700\nroot 600\nroot 755")
}

// confined checks that systemd finds an exposure of at most 1.5 of 10 in a unit.
func (m *machine) confined(unit string) {
	m.t.Helper()
	if out, err := m.command("systemd-analyze", "security", "--offline=true", "--threshold=15", unit).CombinedOutput(); err != nil {
		m.t.Errorf("systemd-analyze security %s: %v: %s", unit, err, out)
	}
}

// The commands of deploy/systemd/README.md lead from nothing to services that run, and on to their upgrade and removal.
func TestServer(t *testing.T) {
	m := boot(t)
	blocks := readme(t)
	s := m.session()
	m.bring(oldDeb, "coppice_old.deb")
	nothing := func(string) {}

	s.section(&blocks, "Coppice on a plain server", func(string) { m.installed() })

	s.section(&blocks, "One server, one process", func(string) {
		m.cascade(operatorUp)
		m.prints("ps -o user= -C coppice", "coppice")
		m.prints("su nobody -s /bin/sh -c 'NATS_URL=nats://127.0.0.1:4222 coppice get pods' 2>&1 | grep -o 'Authorization Violation' || true", "Authorization Violation")
	}, func(out string) {
		if !strings.Contains(out, "no namespaces found") {
			t.Errorf("the first command prints %s", out)
		}
	}, func(string) { m.prints("systemctl is-active coppice-up || true", "inactive") })

	s.section(&blocks, "The NATS server", nothing, func(string) {
		m.prints("stat -c '%U:%G %a' /etc/nats /etc/nats/passwords/passwords.conf", "root:nats 750\nroot:nats 640")
	})
	// A service waits for NATS without end, and needs no help when NATS is back.
	s.m.run("systemctl stop nats-server")
	s.m.run("systemd-run --quiet --on-active=3s systemctl start nats-server")
	s.section(&blocks, "The services", func(string) {
		m.prints("stat -c %a /run/credentials/coppice-graph.service/*", "400\n400\n400")
		m.prints("ps -o user= -C coppice | sort | uniq -c | sort -n | awk '{print $1}'", "1\n1\n1\n1") // users of their own
		m.prints("systemctl show -P NRestarts "+strings.Join(services, " "), "0\n\n0\n\n0\n\n0")
		m.prints("stat -c '%U %a' /var/lib/coppice/graph", "coppice 700")
	}, func(string) { m.cascade(operator) })

	m.outage()
	m.crash()
	m.settings()

	// An operator's setting outlasts an upgrade; what the new package changes is replaced where the operator did not.
	m.run("echo COPPICE_LOG_FORMAT=json >> /etc/coppice/coppice.env; rm /media/*.deb")
	m.run(operator + ` coppice create -f - <<<'{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}'`)
	m.bring(newDeb, "coppice_new.deb")
	before := m.mainPIDs()
	for len(blocks) > 0 && blocks[0].heading == "Three servers" { // TestThreeServers enters them
		blocks = blocks[1:]
	}
	s.section(&blocks, "Upgrade", func(string) {
		for _, old := range strings.Fields(before) {
			if strings.Contains(m.mainPIDs()+"\n", old+"\n") {
				t.Errorf("the upgrade did not restart process %s", old)
			}
		}
		m.prints("systemctl is-active coppice-up || true", "inactive")
		m.prints("tail -n 1 /etc/coppice/coppice.env /etc/coppice/processor.env | grep -v ==", "COPPICE_LOG_FORMAT=json\n\n"+added)
		m.prints("journalctl -o cat -n 1 -u coppice-processor | grep -c '^{\"time\":'", "1")
		m.prints("dpkg-query -W -f '${Version} ${Status}' coppice", version+"-1 install ok installed")
		m.prints(operator+" coppice get configmap/kept -o name", "configmaps/kept")
		m.cascade(operator)
	})

	s.section(&blocks, "Remove", func(string) {
		m.prints("ps -o user= -C coppice", "")
		m.prints("find /etc/systemd/system -name 'coppice*.service'", "")
		m.prints("tail -n 1 /etc/coppice/coppice.env", "COPPICE_LOG_FORMAT=json")
		m.prints("ls -d /var/lib/coppice/graph/default /etc/coppice/credentials/secret", "/etc/coppice/credentials/secret\n/var/lib/coppice/graph/default")
		m.prints("ls /usr/bin/coppice /usr/lib/systemd/system/coppice* 2>/dev/null || true", "")
	}, func(out string) {
		for _, dir := range []string{"/var/lib/coppice", "/etc/coppice/credentials"} {
			if !strings.Contains(out, "coppice: "+dir+" is kept; to delete it: rm -r "+dir+"\n") {
				t.Errorf("purge does not say that %s is kept: %s", dir, out)
			}
		}
		m.prints("ls -A /etc/coppice", "credentials")
		m.prints("ls -d /var/lib/coppice/graph/default", "/var/lib/coppice/graph/default")
	}, func(string) { m.prints("ls -d /etc/coppice /var/lib/coppice 2>/dev/null || true", "") })
	if len(blocks) != 0 {
		t.Errorf("commands of README.md that the test does not expect: %v", blocks)
	}
}

// outage stops NATS: the services wait, and continue when it is back.
func (m *machine) outage() {
	m.t.Helper()
	before := m.mainPIDs()
	m.run("systemctl stop nats-server")
	waitFor(m.t, "the services to notice", func() bool {
		out := m.try("coppice ready")
		return strings.Count(out, "is not ready") == len(services)
	})
	m.run("systemctl start nats-server && coppice ready --wait 1m")
	m.cascade(operator)
	if after := m.mainPIDs(); after != before {
		m.t.Errorf("processes were %s before NATS was down, and are %s", before, after)
	}
}

// crash kills a service: systemd starts it again.
func (m *machine) crash() {
	m.t.Helper()
	for _, unit := range services {
		m.run("systemctl kill --signal=KILL " + unit)
		waitFor(m.t, unit+" to be started again", func() bool { return m.try("systemctl show -P NRestarts "+unit) == "1\n" })
	}
	m.run("coppice ready --wait 1m")
	m.cascade(operator)
}

// edit does what a row of the table "Other settings" of README.md says.
func (m *machine) edit(row string) {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy/systemd/README.md"))
	succeed(m.t, err)
	found := regexp.MustCompile("(?m)^\\| " + row + ".* \\| `(.*)` \\| `(.*)` \\|$").FindStringSubmatch(string(data))
	if found == nil {
		m.t.Fatalf("README.md has no row %q", row)
	}
	m.run("mkdir -p /etc/systemd/system/" + found[1] + ".service.d; cat > /etc/systemd/system/" + found[1] + ".service.d/override.conf <<'END'\n" +
		strings.ReplaceAll(found[2], "`<br>`", "\n") + "\nEND\nsystemctl daemon-reload")
}

// settings changes what units may read and write.
func (m *machine) settings() {
	m.t.Helper()
	m.run("install -d -o coppice /srv/archive; echo COPPICE_ARCHIVE=file:///srv/archive >> /etc/coppice/graph.env")
	m.edit("an archive in a directory")
	m.run("systemctl restart coppice-graph; coppice ready --wait 1m")
	// The log of a realm that is deleted is archived first.
	m.run("export " + operator + "; coppice realm create shop; coppice realm delete shop --confirm shop; ls -A /srv/archive | grep .")
	m.run("sed -i '/^COPPICE_ARCHIVE=/d' /etc/coppice/graph.env; systemctl restart coppice-graph; coppice ready --wait 1m")
	m.edit("credentials of NATS")
	m.run("touch /etc/coppice/credentials/processor.creds; systemctl restart coppice-processor")
	waitFor(m.t, "the credentials, and no password", func() bool {
		return m.try("ls /run/credentials/coppice-processor.service") == "creds\n"
	})
	waitFor(m.t, "the empty credentials to be refused", func() bool {
		return strings.Contains(m.try("journalctl -u coppice-processor -o cat -n 8"), "refuses these credentials")
	})
	m.prints("systemctl show -P UnsetEnvironment coppice-processor", "NATS_USER NATS_PASSWORD_FILE")
	m.run("systemctl revert coppice-processor; systemctl restart coppice-processor; coppice ready --wait 1m")
	m.cascade(operator)
}
