package main

import (
	"strings"
	"testing"
)

// The scripts of the .rpm do what those of the .deb do. It is installed by Debian's rpm, which knows no installed
// systemd: what the package needs is not checked.
func TestRPM(t *testing.T) {
	m := boot(t)
	m.bring(oldRPM, "old.rpm")
	m.bring(newRPM, "new.rpm")
	const rpm = "rpm --force-debian --nodeps "

	m.run(rpm + "--install old.rpm")
	m.installed()
	m.run("systemctl enable --now coppice-up && coppice ready --wait 1m")
	m.cascade(operatorUp)

	m.run("echo COPPICE_LOG_FORMAT=json | tee -a /etc/coppice/coppice.env >> /etc/coppice/graph.env")
	m.run(operatorUp + ` coppice create -f - <<<'{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}'`)
	before := m.run("systemctl show -P MainPID coppice-up")
	m.run(rpm + "--upgrade new.rpm && coppice ready --wait 1m")
	if m.run("systemctl show -P MainPID coppice-up") == before {
		t.Error("the upgrade did not restart coppice-up")
	}
	m.prints("systemctl is-active coppice-graph || true", "inactive")
	m.prints("rpm -q --queryformat '%{VERSION}-%{RELEASE}' coppice", version+"-1")
	m.prints("tail -q -n 1 /etc/coppice/coppice.env /etc/coppice/graph.env /etc/coppice/processor.env", "COPPICE_LOG_FORMAT=json\nCOPPICE_LOG_FORMAT=json\n"+added)
	m.prints("ls /etc/coppice/*.rpm*", "/etc/coppice/graph.env.rpmnew")
	m.prints(operatorUp+" coppice get configmap/kept -o name", "configmaps/kept")

	out := m.run(rpm + "--erase coppice")
	if !strings.Contains(out, "coppice: /var/lib/coppice is kept; to delete it: rm -r /var/lib/coppice\n") {
		t.Errorf("the removal does not say where the data is: %s", out)
	}
	m.prints("ps -o user= -C coppice", "")
	m.prints("find /etc/systemd/system -name 'coppice*.service'", "")
	m.prints("ls /etc/coppice; ls -d /var/lib/coppice/up/graph", "coppice.env.rpmsave\ngraph.env.rpmnew\ngraph.env.rpmsave\n/var/lib/coppice/up/graph")
}
