package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// plain speaks the NATS protocol over a socket, and nothing else: what any
// language can do that has sockets and JSON.
type plain struct {
	t      *testing.T
	conn   net.Conn
	r      *bufio.Reader
	inboxs int
}

func dialPlain(t *testing.T, address string) *plain {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := &plain{t: t, conn: conn, r: bufio.NewReader(conn)}
	if info := p.line(); !strings.HasPrefix(info, "INFO ") {
		t.Fatalf("the server says %q", info)
	}
	p.send(`CONNECT {"verbose":false,"pedantic":false,"headers":true}`)
	p.send("SUB _INBOX.plain.* 1")
	return p
}

func (p *plain) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, line+"\r\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plain) line() string {
	p.t.Helper()
	must.Succeed(p.t, p.conn.SetReadDeadline(time.Now().Add(testkit.Timeout)))
	s, err := p.r.ReadString('\n')
	must.Succeed(p.t, err)
	return strings.TrimRight(s, "\r\n")
}

// publish sends a message with one header, or none.
func (p *plain) publish(subject, reply, header, body string) {
	p.t.Helper()
	if header == "" {
		p.send(fmt.Sprintf("PUB %s %s %d\r\n%s", subject, reply, len(body), body))
		return
	}
	h := "NATS/1.0\r\n" + header + "\r\n\r\n"
	p.send(fmt.Sprintf("HPUB %s %s %d %d\r\n%s%s", subject, reply, len(h), len(h)+len(body), h, body))
}

// next returns the next message, its reply subject and its headers.
func (p *plain) next() (body, reply, headers string) {
	p.t.Helper()
	for {
		words := strings.Fields(p.line())
		switch words[0] {
		case "PING":
			p.send("PONG")
		case "MSG", "HMSG":
			sizes := 1
			if words[0] == "HMSG" {
				sizes = 2
			}
			total, err := strconv.Atoi(words[len(words)-1])
			must.Succeed(p.t, err)
			data := make([]byte, total+2)
			if _, err := io.ReadFull(p.r, data); err != nil {
				p.t.Fatal(err)
			}
			head := 0
			if sizes == 2 {
				if head, err = strconv.Atoi(words[len(words)-2]); err != nil {
					p.t.Fatal(err)
				}
			}
			if len(words) == 4+sizes {
				reply = words[3]
			}
			return string(data[head:total]), reply, string(data[:head])
		case "-ERR":
			p.t.Fatalf("the server says %v", words)
		}
	}
}

// request sends a request and returns its reply.
func (p *plain) request(subject, header, body string) (reply, headers string) {
	p.t.Helper()
	p.inboxs++
	p.publish(subject, fmt.Sprintf("_INBOX.plain.%d", p.inboxs), header, body)
	reply, _, headers = p.next()
	return reply, headers
}

// A finalizer that speaks NATS over a socket, as docs/finalizers.md says.
func TestFinalizerWithNothingButTheProtocol(t *testing.T) {
	t.Parallel()
	s := startWith(t, allinone.Config{Port: -1})
	ctx := s.Ctx
	pods := client.New(s.Conn(), client.WithActor("ana")).Resource(client.Resource{Plural: "pods"}, "shop")
	created, err := pods.Create(ctx, &coppicev1.Object{
		ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{Name: "web-1", Finalizers: []string{"example.com/bucket"}},
	})
	must.Succeed(t, err)
	if r, err := pods.Delete(ctx, "web-1"); err != nil || r.State != client.Pending {
		t.Fatalf("delete: %+v, %v; want Pending", r, err)
	}

	u, err := url.Parse(s.Services.Server().URL())
	must.Succeed(t, err)
	p := dialPlain(t, u.Host)
	const stream = "coppice-default-finalize"
	// f- and what `printf %s example.com/bucket | sha256sum` prints.
	const name = "f-5924252e196cf457b983cdc670138d0805be3ba0841063a1bb1023fb83a9c87d"
	reply, headers := p.request("coppice.default.api.bucket.consumefinalizer._._._.example.com/bucket",
		"Content-Type: application/json\r\nCoppice-Request: consumefinalizer", `{"protocol":1}`)
	if strings.Contains(headers, "Nats-Service-Error") || !strings.Contains(reply, name) || !strings.Contains(reply, `"$JS.API.CONSUMER.MSG.NEXT.`+stream+"."+name) {
		t.Fatalf("consumefinalizer: %s %s", headers, reply)
	}
	p.publish("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+name, "_INBOX.plain.next", "", `{"batch":1,"expires":20000000000}`)
	call, ack, _ := p.next()
	var c struct {
		Resource, Finalizer string
		Object              struct {
			Metadata struct {
				Name, Namespace, UID, DeletionTimestamp string
			}
		}
	}
	if err := json.Unmarshal([]byte(call), &c); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	m := c.Object.Metadata
	if c.Resource != "pods" || c.Finalizer != "example.com/bucket" || m.Name != "web-1" || m.UID != created.GetMetadata().GetUid() || m.DeletionTimestamp == "" {
		t.Fatalf("the call is %s", call)
	}

	p.publish(ack, "", "", "+WPI")
	reply, headers = p.request("coppice.default.api.bucket.removefinalizer._.pods.shop.example.com/bucket", "Content-Type: application/json\r\nCoppice-Request: removefinalizer",
		`{"protocol":1,"objects":[{"name":"`+m.Name+`","preconditions":{"uid":"`+m.UID+`"}}]}`)
	if strings.Contains(headers, "Nats-Service-Error") || !strings.Contains(reply, `"code":200`) {
		t.Fatalf("removefinalizer: %s %s", headers, reply)
	}
	p.publish(ack, "", "", "+ACK")
	if _, err := pods.Get(ctx, "web-1"); err == nil {
		t.Fatal("the pod is still there")
	}
}
