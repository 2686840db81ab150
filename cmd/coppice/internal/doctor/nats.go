package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/coppice-gc/coppice/internal/bus/dial"
)

// What a NATS server must have.
const (
	oldestMajor, oldestMinor = 2, 12
	largestMessage           = 8 << 20 // max_payload in the configuration of 'coppice nats-config'
)

// examineServers examines the NATS server of this connection, and those whose monitoring ports are named.
func (x *examination) examineServers(ctx context.Context) {
	server := dial.Redacted(x.Conn.ConnectedUrlRedacted())
	x.examineVersion(server, x.Conn.ConnectedServerVersion())
	if max := x.Conn.MaxPayload(); max < largestMessage {
		x.attention("messages", server, "set max_payload: 8MB, as 'coppice nats-config' does", "the server takes messages of up to %d bytes: objects and commits are limited to less than Coppice allows", max)
	} else {
		x.ok("messages", server, "the server takes messages of up to %d bytes", max)
	}
	x.examineReachable(ctx)
	if len(x.monitors) == 0 {
		x.notExamined("sync", "", "name the monitoring port of each NATS server with --monitor", "whether the NATS servers sync what they acknowledge")
	}
	for _, u := range x.monitors {
		x.examineSync(ctx, u)
	}
}

// examineReachable examines whether each NATS server that is named, or known from its cluster, can be reached.
func (x *examination) examineReachable(ctx context.Context) {
	for _, address := range x.Conn.Servers() {
		u, err := url.Parse(address)
		if err != nil {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, min(x.Dial.Timeout, dialTimeout))
		c, err := new(net.Dialer).DialContext(limited, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), natsPort)))
		cancel()
		if err != nil {
			x.attention("server", u.Redacted(), "start the NATS server; while most servers of a cluster are away, no command succeeds", "it does not answer: %v", err)
			continue
		}
		_ = c.Close()
		x.ok("server", u.Redacted(), "it answers")
	}
}

// natsPort is the port of a NATS server whose URL names none.
const natsPort = "4222"

// dialTimeout is the longest time for a connection to a server.
const dialTimeout = 3 * time.Second

func (x *examination) examineVersion(server, version string) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d.", &major, &minor); err != nil || major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		x.attention("version", server, "upgrade the server", "nats-server %s is older than %d.%d", version, oldestMajor, oldestMinor)
		return
	}
	x.ok("version", server, "nats-server %s", version)
}

// varz is what a monitoring port reports about its server.
type varz struct {
	Name      string `json:"server_name"`
	Version   string `json:"version"`
	JetStream struct {
		Config *struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
	} `json:"jetstream"`
}

func (x *examination) examineSync(ctx context.Context, u *url.URL) {
	var v varz
	if err := x.readJSON(ctx, u.JoinPath("varz"), &v); err != nil {
		x.attention("sync", u.Redacted(), "name the monitoring port (http_port) of a NATS server with --monitor", "%v", err)
		return
	}
	x.examineVersion(v.Name, v.Version)
	switch {
	case v.JetStream.Config == nil:
		x.attention("sync", v.Name, "enable JetStream, as 'coppice nats-config' does", "the server has no JetStream")
	case !v.JetStream.Config.SyncAlways:
		x.attention("sync", v.Name, "set sync_interval: always in the block jetstream", "the server acknowledges messages before they are on disk: a power loss loses acknowledged writes")
	default:
		x.ok("sync", v.Name, "what the server acknowledges is on disk")
	}
}

// readJSON reads a page of JSON.
func (x *examination) readJSON(ctx context.Context, u *url.URL, into any) error {
	data, err := x.read(ctx, u)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return nil
}

// maxPage is the maximum size of a page that is read.
const maxPage = 64 << 20

// read reads a page.
func (x *examination) read(ctx context.Context, u *url.URL) (data []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	reply, err := x.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reply.Body.Close()) }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", u.Redacted(), reply.Status)
	}
	return io.ReadAll(io.LimitReader(reply.Body, maxPage))
}
