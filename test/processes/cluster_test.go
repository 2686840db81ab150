//go:build unix

package processes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// The files of deploy/nats/cluster make a cluster with TLS, to which a user is added without a change of the servers' files.
func TestClusterExample(t *testing.T) {
	t.Parallel()
	clusterExample(t, certificates)
}

// The same with the certificates of its script.
func TestClusterExampleWithOpenSSL(t *testing.T) {
	nightly.Test(t, nightly.Minutes) // it needs openssl
	t.Parallel()
	clusterExample(t, func(t *testing.T, dir string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "./certificates.sh")
		c.Dir = filepath.Dir(dir)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("certificates.sh: %v: %s", err, out)
		}
	})
}

func clusterExample(t *testing.T, certify func(t *testing.T, dir string)) {
	t.Helper()
	d := newDeployment(t)
	must.Succeed(t, os.CopyFS(d.dir, os.DirFS(filepath.Join(module, "deploy/nats/cluster"))))
	accounts := func(flags ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), program("coppice"), append([]string{"nats-config", "--accounts-only", "--passwords", "passwords"}, flags...)...)
		c.Dir = d.dir
		out, err := c.Output()
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(filepath.Join(d.dir, "accounts.conf"), out, 0o600))
	}
	accounts()
	certify(t, filepath.Join(d.dir, "certificates"))
	// The flags of a server replace addresses of its file: those of the files may be in use on this machine.
	ports := testkit.FreePorts(t, 6)
	urls, routes := make([]string, 3), make([]string, 3)
	for i := range urls {
		urls[i], routes[i] = fmt.Sprintf("tls://127.0.0.1:%d", ports[i]), fmt.Sprintf("nats-route://127.0.0.1:%d", ports[3+i])
	}
	servers := make([]*process, 3)
	for i, node := range []string{"node-a", "node-b", "node-c"} {
		servers[i] = start(t, d.ctx, d.dir, node, nil, program("nats-server"), "--config", node+".conf", "--addr", "127.0.0.1", "--port", fmt.Sprint(ports[i]),
			"--cluster", routes[i], "--routes", strings.Join(routes, ","))
	}
	all := strings.Join(urls, ",")
	connect := func(user string, opts ...nats.Option) (*nats.Conn, error) {
		password, err := dial.ReadPassword(filepath.Join(d.dir, "passwords", user))
		must.Succeed(t, err)
		return nats.Connect(all, append([]nats.Option{nats.UserInfo(user, password), nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.Timeout(testkit.Timeout)}, opts...)...)
	}
	authority := nats.RootCAs(filepath.Join(d.dir, "certificates", "ca.pem"))
	as := func(user string) *client.Client {
		t.Helper()
		nc, err := connect(user, authority, nats.MaxReconnects(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		must.Succeed(t, err)
		t.Cleanup(nc.Close)
		return client.New(nc, client.WithActor(user))
	}
	// An attempt that fails while the servers elect a leader costs the graph service a part of its lease.
	var js jetstream.JetStream
	limit := time.Second / 2
	testkit.WaitFor(t, d.ctx, "JetStream of the cluster", func() bool {
		if js == nil {
			nc, err := connect(bus.RoleAdmin, authority, nats.MaxReconnects(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				return false
			}
			t.Cleanup(nc.Close)
			js, err = jetstream.New(nc)
			must.Succeed(t, err)
		}
		limit *= 2 // a request that is lost in the election gets no reply
		ctx, cancel := context.WithTimeout(d.ctx, limit)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err == nil
	})
	env := []string{"HOME=" + d.dir, "TMPDIR=" + d.dir, "NATS_TIMEOUT=" + testkit.Timeout.String(), "COPPICE_SECRET=" + string(testkit.Secrets().Format()), "COPPICE_HTTP=127.0.0.1:0"}
	graph := start(t, d.ctx, d.dir, "graph", env, program("coppice"), "graph", "--server", all, "--tlsca", filepath.Join(d.dir, "certificates", "ca.pem"),
		"--user", bus.RoleGraph, "--password-file", filepath.Join(d.dir, "passwords", bus.RoleGraph), "--answers-user", bus.RoleAnswers,
		"--answers-password-file", filepath.Join(d.dir, "passwords", bus.RoleAnswers),
		"--data", filepath.Join(d.dir, "graph"), "--lease", "10m", "--replicas", "3").serving()
	graph.ready()
	application := as(bus.RoleApplication)
	d.create(application, pods, object("web"))
	if nc, err := connect(bus.RoleApplication); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("without the authority of the certificates: %v", err)
		nc.Close()
	}

	before := nodes(t, d.dir)
	accounts("--application", bus.RoleApplication, "--application", "shop")
	for i := range 2 {
		for _, s := range servers {
			s.signal(syscall.SIGHUP)
			testkit.WaitFor(t, d.ctx, "the server to reload", func() bool { return strings.Count(s.output(), "Reloaded server configuration") == i+1 })
		}
	}
	if _, err := as("shop").Resource(pods, namespace).Get(d.ctx, "web"); err != nil {
		t.Errorf("a user who was added: %v", err)
	}
	if after := nodes(t, d.dir); after != before {
		t.Error("the files of the servers have changed")
	}
	graph.terminate()
	for _, s := range servers {
		s.kill()
	}
}

// nodes returns the configurations of the servers.
func nodes(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "node-*.conf"))
	must.Succeed(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		must.Succeed(t, err)
		all.Write(data)
	}
	if len(files) != 3 {
		t.Fatalf("%d nodes", len(files))
	}
	return all.String()
}

// certificates writes what deploy/nats/cluster/certificates.sh writes, for machines without openssl.
func certificates(t *testing.T, dir string) {
	t.Helper()
	must.Succeed(t, os.Mkdir(dir, 0o700))
	write := func(name, kind string, data []byte) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
	}
	issue := func(name string, c, by *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must.Succeed(t, err)
		c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		if by == nil {
			by, signer = c, key
		}
		data, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, signer)
		must.Succeed(t, err)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		must.Succeed(t, err)
		write(name+".pem", "CERTIFICATE", data)
		write(name+".key", "PRIVATE KEY", private)
		parsed, err := x509.ParseCertificate(data)
		must.Succeed(t, err)
		return parsed, key
	}
	authority, key := issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	for i, node := range []string{"nats-a", "nats-b", "nats-c"} {
		issue(node, &x509.Certificate{
			DNSNames: []string{node, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, byte(i+1))},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, authority, key)
	}
}
