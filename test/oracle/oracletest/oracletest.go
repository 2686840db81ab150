// Package oracletest has what the tests that start an API server have in common.
package oracletest

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// Etcd starts an etcd in this process, on the loopback device, and returns its URL.
func Etcd(t *testing.T) string {
	t.Helper()
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.LogLevel = "fatal"   // etcd logs its shutdown as an error
	config.UnsafeNoFsync = true // the data need not survive a crash
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{loopback}, []url.URL{loopback}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{loopback}, []url.URL{loopback}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd does not become ready")
	}
	return "http://" + etcd.Clients[0].Addr().String()
}

// Version returns the version of a module. (The build info of a test has no modules.)
func Version(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
