package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/allinone"
)

// background is a command that runs.
type background struct {
	ctx   context.Context
	cmd   *exec.Cmd
	mu    sync.Mutex
	out   strings.Builder
	ended chan struct{}
	err   error
}

func (b *background) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(data)
}

func (b *background) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// start starts a command in a shell, as the documents show it.
func (p *player) start(t *testing.T, text, user string) *background {
	t.Helper()
	b := &background{ctx: p.ctx, cmd: exec.Command("sh", "-c", "exec "+text), ended: make(chan struct{})}
	b.cmd.Dir = p.dir
	b.cmd.Env = []string{"PATH=" + filepath.Dir(p.nats) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + p.dir, "NATS_TIMEOUT=" + p.timeout, "COPPICE_HTTP=127.0.0.1:0"}
	if p.auth {
		b.cmd.Env = append(b.cmd.Env, "XDG_CONFIG_HOME="+filepath.Join(p.dir, "data", allinone.UsersDir), "NATS_CONTEXT="+user)
	} else {
		b.cmd.Env = append(b.cmd.Env, "NATS_URL="+p.url)
	}
	b.cmd.Env = append(b.cmd.Env, p.env...)
	b.cmd.Stdout, b.cmd.Stderr = b, b
	must.Succeed(t, b.cmd.Start())
	go func() {
		defer close(b.ended)
		b.err = b.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.ended
	})
	return b
}

func (b *background) wait(t *testing.T) {
	t.Helper()
	testkit.Receive(t, b.ctx, "the end of "+b.cmd.String(), b.ended)
}

// said is what the command has printed that matches, nil if nothing does within that time.
func (b *background) said(pattern string, within time.Duration) (found []string) {
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	_ = poll.Until(ctx, func() (bool, error) {
		found = regexp.MustCompile(pattern).FindStringSubmatch(b.output())
		return found != nil, nil
	})
	return found
}

// says waits until the command has printed a text.
func (b *background) says(t *testing.T, pattern string) []string {
	t.Helper()
	var found []string
	defer func() {
		if t.Failed() {
			t.Logf("%s printed\n%s", b.cmd, b.output())
		}
	}()
	testkit.WaitFor(t, b.ctx, fmt.Sprintf("%s to print %s", b.cmd, pattern), func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(b.output())
		select {
		case <-b.ended:
			if found == nil {
				t.Fatalf("%s ended with %v, and printed %s", b.cmd, b.err, b.output())
			}
		default:
		}
		return found != nil
	})
	return found
}
