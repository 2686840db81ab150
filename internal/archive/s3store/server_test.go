package s3store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// Credentials of the server.
const (
	accessKey = "coppice"
	secretKey = "test-secret-key"
)

// TestMain stops the server that the tests have started.
func TestMain(m *testing.M) {
	_ = os.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	code := m.Run()
	if stop != nil {
		stop()
	}
	os.Exit(code)
}

// stop stops the server. It is set by the first call of server.
var stop func()

// server returns the endpoint of a versitygw on the loopback interface, which the first call starts.
func server(t *testing.T) string {
	t.Helper()
	nightly.Test(t, nightly.S3Server)
	endpoint, err := started()
	must.Succeed(t, err)
	return endpoint
}

var started = sync.OnceValues(func() (endpoint string, err error) {
	dir, err := os.MkdirTemp("", "coppice-s3-")
	if err != nil {
		return "", err
	}
	for range 5 { // another process may take the port
		if endpoint, err = start(dir); err == nil {
			return endpoint, nil
		}
	}
	return "", errors.Join(err, os.RemoveAll(dir))
})

// start starts a server with its files in a directory.
func start(dir string) (endpoint string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", err
	}
	root, metadata := filepath.Join(dir, "root"), filepath.Join(dir, "metadata")
	for _, d := range []string{root, metadata} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
	}
	c := exec.Command("versitygw", "--quiet", "--port", address, "posix", "--sidecar", metadata, root)
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return "", err
	}
	exited := make(chan error, 1)
	go func() { exited <- c.Wait() }()
	halt := func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = c.Process.Kill()
			<-exited
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			stop = func() {
				halt()
				_ = os.RemoveAll(dir)
			}
			return "http://" + address, conn.Close()
		}
		select {
		case err := <-exited:
			return "", fmt.Errorf("versitygw has exited: %w", err)
		case <-ctx.Done():
			halt()
			return "", errors.New("versitygw does not listen")
		case <-tick.C:
		}
	}
}

// bucket creates a bucket.
func bucket(t *testing.T, endpoint, name string) {
	t.Helper()
	client, err := minio.New(endpoint[len("http://"):], &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, "")})
	must.Succeed(t, err)
	must.Succeed(t, client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}))
}
