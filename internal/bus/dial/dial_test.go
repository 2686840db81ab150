package dial_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// serve runs a server until the test has ended.
func serve(t *testing.T, o *server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog, o.AuthTimeout = "127.0.0.1", -1, true, true, testkit.Timeout.Seconds()
	s, err := server.NewServer(o)
	must.Succeed(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(testkit.Timeout) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

// as connects with the flags of a command line.
func as(t *testing.T, args ...string) (*nats.Conn, error) {
	t.Helper()
	var c dial.Config
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Flags(flags)
	must.Succeed(t, flags.Parse(args))
	must.Succeed(t, c.Complete())
	nc, err := c.Client(testkit.Context(t), "test")
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// comesIn fails the test if the connection is refused, isRefused if it is accepted.
func comesIn(t *testing.T, args ...string) *nats.Conn {
	t.Helper()
	nc, err := as(t, args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return nc
}

func isRefused(t *testing.T, want string, args ...string) {
	t.Helper()
	if _, err := as(t, args...); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", strings.Join(args, " "), err, want)
	}
}

// alone hides what the user of this machine has set, and the contexts.
func alone(t *testing.T) string {
	t.Helper()
	for _, v := range []string{"URL", "USER", "PASSWORD", "CREDS", "NKEY", "CERT", "KEY", "CA", "CONTEXT"} {
		t.Setenv("NATS_"+v, "")
	}
	t.Setenv("NATS_TIMEOUT", testkit.Timeout.String())
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	return dir
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Succeed(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestPassword(t *testing.T) {
	alone(t)
	url := serve(t, &server.Options{Users: []*server.User{{Username: "ana", Password: "secret"}}})
	isRefused(t, "refuses these credentials", "--server", url)
	isRefused(t, "refuses the password of the user ana", "--server", url, "--user", "ana", "--password", "wrong")
	nc := comesIn(t, "-s", url, "--user", "ana", "--password", "secret")
	if inbox := nc.NewRespInbox(); !strings.HasPrefix(inbox, "_INBOX.ana.") {
		t.Errorf("replies come to %s, want a private inbox", inbox)
	}
	if o := nc.Opts; o.PingInterval*time.Duration(o.MaxPingsOut+1) > 30*time.Second {
		t.Errorf("a half-open connection is noticed after %d pings, %v apart; want within 30 s", o.MaxPingsOut+1, o.PingInterval)
	}
	t.Setenv("NATS_URL", url)
	t.Setenv("NATS_USER", "ana")
	t.Setenv("NATS_PASSWORD", "secret")
	comesIn(t)
	isRefused(t, "no NATS server answers", "--server", "nats://127.0.0.1:1")
}

// No message shows a password that is part of an address.
func TestRedacted(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "nats://ana:secret@h:1, tls://bob:secret@i:2": "nats://h:1,tls://i:2",
		"nats://ana:sec%ret@h:1": "h:1",
	} {
		if got := dial.Redacted(server); got != want {
			t.Errorf("%s: %s, want %s", server, got, want)
		}
	}
	isRefused(t, "no NATS server answers at nats://127.0.0.1:1", "--server", "nats://ana:secret@127.0.0.1:1")
	isRefused(t, "the address of the NATS server at 127.0.0.1:1 cannot be read: invalid URL escape", "--server", "nats://ana:sec%ret@127.0.0.1:1")
}

func TestToken(t *testing.T) {
	alone(t)
	url := serve(t, &server.Options{Authorization: "sesame"})
	comesIn(t, "--server", url, "--user", "sesame")
	isRefused(t, "refuses these credentials", "--server", url, "--user", "other")
}

func TestNKey(t *testing.T) {
	dir := alone(t)
	key, err := nkeys.CreateUser()
	must.Succeed(t, err)
	public, _ := key.PublicKey()
	seed, _ := key.Seed()
	url := serve(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	comesIn(t, "--server", url, "--nkey", write(t, filepath.Join(dir, "user.nk"), seed))
	isRefused(t, "refuses these credentials", "--server", url)
	isRefused(t, "nowhere.nk", "--server", url, "--nkey", "nowhere.nk")
}

func TestCreds(t *testing.T) {
	dir := alone(t)
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		t.Helper()
		k, err := create()
		must.Succeed(t, err)
		public, _ := k.PublicKey()
		return k, public
	}
	operator, operatorID := pair(nkeys.CreateOperator)
	account, accountID := pair(nkeys.CreateAccount)
	user, userID := pair(nkeys.CreateUser)
	encode := func(c jwt.Claims, by nkeys.KeyPair) string {
		t.Helper()
		token, err := c.Encode(by)
		must.Succeed(t, err)
		return token
	}
	trusted := jwt.NewOperatorClaims(operatorID)
	resolver := &server.MemAccResolver{}
	must.Succeed(t, resolver.Store(accountID, encode(jwt.NewAccountClaims(accountID), operator)))
	url := serve(t, &server.Options{TrustedOperators: []*jwt.OperatorClaims{trusted}, AccountResolver: resolver})
	seed, _ := user.Seed()
	creds, err := jwt.FormatUserConfig(encode(jwt.NewUserClaims(userID), account), seed)
	must.Succeed(t, err)
	comesIn(t, "--server", url, "--creds", write(t, filepath.Join(dir, "user.creds"), creds))
	isRefused(t, "refuses these credentials", "--server", url)
}

// A server that requires client certificates accepts a client that has one.
func TestTLS(t *testing.T) {
	dir := alone(t)
	ca, caKey := certificate(t, nil, nil)
	cert, key := certificate(t, ca, caKey)
	encoded, err := x509.MarshalECPrivateKey(key)
	must.Succeed(t, err)
	block := func(name, kind string, der []byte) string {
		return write(t, filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	caFile, certFile, keyFile := block("ca.pem", "CERTIFICATE", ca.Raw), block("cert.pem", "CERTIFICATE", cert.Raw), block("key.pem", "EC PRIVATE KEY", encoded)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	url := serve(t, &server.Options{TLS: true, TLSVerify: true, TLSTimeout: testkit.Timeout.Seconds(), TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		ClientCAs:    pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}})
	comesIn(t, "--server", url, "--tlsca", caFile, "--tlscert", certFile, "--tlskey", keyFile)
	isRefused(t, "connect to NATS", "--server", url, "--tlsca", caFile) // what else it says is for the kernel to choose
	isRefused(t, "certificate", "--server", url, "--tlscert", certFile, "--tlskey", keyFile)
}

// certificate returns a certificate for this machine, signed by another certificate or by
// itself.
func certificate(t *testing.T, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ca == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		ca, caKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), caKey)
	must.Succeed(t, err)
	parsed, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return parsed, key
}

// Contexts are read where the nats command keeps them; flags stand before them.
func TestContext(t *testing.T) {
	dir := alone(t)
	url := serve(t, &server.Options{Users: []*server.User{{Username: "ana", Password: "secret"}, {Username: "bert", Password: "other"}}})
	file, err := json.Marshal(map[string]string{"url": url, "user": "ana", "password": "secret"})
	must.Succeed(t, err)
	write(t, filepath.Join(dir, "nats", "context", "shop.json"), file)
	nc := comesIn(t, "--context", "shop")
	if inbox := nc.NewRespInbox(); !strings.HasPrefix(inbox, "_INBOX.ana.") {
		t.Errorf("replies come to %s, want the inbox of the context's user", inbox)
	}
	t.Setenv("NATS_CONTEXT", "shop")
	comesIn(t)
	nc = comesIn(t, "--user", "bert", "--password", "other")
	if inbox := nc.NewRespInbox(); !strings.HasPrefix(inbox, "_INBOX.bert.") {
		t.Errorf("replies come to %s, want the inbox of --user", inbox)
	}
	isRefused(t, `nats context "nope"`, "--context", "nope")
	// Without a flag and a variable, the selected context applies.
	t.Setenv("NATS_CONTEXT", "")
	write(t, filepath.Join(dir, "nats", "context.txt"), []byte("shop"))
	comesIn(t)
}

// A client and a service that wait for a silent server end with their context.
func TestEnds(t *testing.T) {
	alone(t)
	for name, connect := range map[string]func(context.Context, *dial.Config) (*nats.Conn, error){
		"client": func(ctx context.Context, c *dial.Config) (*nats.Conn, error) { return c.Client(ctx, "test") },
		"service": func(ctx context.Context, c *dial.Config) (*nats.Conn, error) {
			return c.Service(ctx, "test", slog.New(slog.DiscardHandler))
		},
	} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		t.Cleanup(func() { _ = l.Close() })
		ctx, end := context.WithCancel(t.Context())
		go func() {
			if c, err := l.Accept(); err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
			end()
		}()
		c := &dial.Config{Server: "nats://" + l.Addr().String(), Timeout: testkit.Timeout}
		if _, err := connect(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that the context has ended", name, err)
		}
	}
}

// A service whose user the server refuses for a while, as after a wrong reload, connects again when it is accepted.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	options := func(password string) *server.Options {
		return &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, AuthTimeout: testkit.Timeout.Seconds(), Users: []*server.User{{Username: "graph", Password: password}}}
	}
	s, err := server.NewServer(options("right"))
	must.Succeed(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(testkit.Timeout) {
		t.Fatal("the server does not start")
	}
	dials := &countingDialer{}
	nc, err := dial.Service(ctx, s.ClientURL(), "test", slog.New(slog.DiscardHandler), nats.UserInfo("graph", "right"), nats.SetCustomDialer(dials))
	must.Succeed(t, err)
	defer nc.Close()
	must.Succeed(t, s.ReloadOptions(options("other")))
	testkit.WaitFor(t, ctx, "several refusals", func() bool { return dials.n.Load() > 5 })
	must.Succeed(t, s.ReloadOptions(options("right")))
	testkit.WaitFor(t, ctx, "the connection to be made again", nc.IsConnected)
}

// countingDialer counts connections.
type countingDialer struct{ n atomic.Int64 }

func (d *countingDialer) Dial(network, address string) (net.Conn, error) {
	d.n.Add(1)
	return net.Dial(network, address)
}
