package chaos_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The sabotages of a graph service: what it does wrong in what it sends. Each violates a
// property that histories are checked for.
const (
	sabotageStaleRead  = "a read returns an older object"
	sabotageNotFound   = "a read does not find an object that exists"
	sabotageRevision   = "an update names a revision that is not its own"
	sabotageDrop       = "a watch leaves out an event"
	sabotageDuplicate  = "a watch sends an event twice"
	sabotageReorder    = "a watch exchanges two events"
	sabotageBookmark   = "a watch names a revision before it has sent the events"
	sabotageResume     = "a watch that resumes leaves out the first events"
	sabotageList       = "a watch that begins leaves out an object"
	sabotageOldContent = "a watch event has an object of another revision"
)

// sabotageEvery is how often a sabotage happens: once in so many messages that allow it.
const sabotageEvery = 5

// saboteur is the network connection on which a graph service sends its replies. It changes the
// messages, so that the service is one that does not keep a property. The service itself is
// not changed.
type saboteur struct {
	net.Conn
	kind string
	out  *io.PipeWriter
	done chan struct{} // closed when nothing more is sent

	count    int
	objects  map[string][2]*coppicev1.Object // by name: the newest version, and the one before
	delayed  *coppicev1.WatchBatch           // a batch that was not sent
	last     *coppicev1.WatchEvent           // the last event
	watching map[string]bool                 // the watches that have had a message, and whether to leave out events now
}

// dialer connects as a saboteur. It is a nats.CustomDialer.
type dialer string

func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	s := &saboteur{Conn: conn, kind: string(d), out: out, done: make(chan struct{}), objects: map[string][2]*coppicev1.Object{}, watching: map[string]bool{}}
	go func() {
		defer close(s.done)
		err := s.pass(bufio.NewReaderSize(in, 1<<20))
		_ = in.CloseWithError(err)
	}()
	return s, nil
}

func (s *saboteur) Write(b []byte) (int, error) { return s.out.Write(b) }

func (s *saboteur) Close() error {
	_ = s.out.Close()
	err := s.Conn.Close()
	<-s.done
	return err
}

// pass passes on the commands of the NATS protocol, and changes the messages.
func (s *saboteur) pass(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "PUB" && fields[0] != "HPUB" {
			if _, err := io.WriteString(s.Conn, line); err != nil {
				return err
			}
			continue
		}
		size, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			return err
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		header := 0
		if fields[0] == "HPUB" {
			if header, err = strconv.Atoi(fields[len(fields)-2]); err != nil {
				return err
			}
		}
		data, send := s.message(fields[1], bytes.Clone(body[header:size]))
		if !send {
			continue
		}
		var out bytes.Buffer
		fields[len(fields)-1] = fmt.Sprint(header + len(data))
		fmt.Fprintf(&out, "%s\r\n%s%s\r\n", strings.Join(fields, " "), body[:header], data)
		if _, err := s.Conn.Write(out.Bytes()); err != nil {
			return err
		}
	}
}

// message returns what to send in the place of a message, or false to send nothing.
func (s *saboteur) message(subject string, data []byte) ([]byte, bool) {
	const inbox = "_INBOX.application." // of a watch; that of a request has one more token
	rest, ok := strings.CutPrefix(subject, inbox)
	if !ok || len(data) == 0 {
		return data, true
	}
	var m proto.Message
	if strings.Contains(rest, ".") {
		var r coppicev1.ObjectsReply
		if proto.Unmarshal(data, &r) != nil || len(r.GetResults()) != 1 || r.GetResults()[0].GetObject() == nil {
			return data, true
		}
		s.reply(r.GetResults()[0])
		m = &r
	} else {
		var b coppicev1.WatchBatch
		if proto.Unmarshal(data, &b) != nil || b.GetError() != nil {
			return data, true
		}
		if !s.batch(subject, &b) {
			return nil, false
		}
		m = &b
	}
	changed, err := proto.Marshal(m)
	if err != nil {
		return data, true
	}
	return changed, true
}

// now reports whether to do it now.
func (s *saboteur) now() bool {
	s.count++
	return s.count%sabotageEvery == 0
}

// reply changes a reply with an object. A revision that was seen before is that of a read.
func (s *saboteur) reply(r *coppicev1.Result) {
	o := r.GetObject()
	name, revision := o.GetMetadata().GetName(), o.GetMetadata().GetResourceVersion()
	versions := s.objects[name]
	read := versions[0].GetMetadata().GetResourceVersion() == revision
	if revision > versions[0].GetMetadata().GetResourceVersion() {
		s.objects[name] = [2]*coppicev1.Object{proto.CloneOf(o), versions[0]}
	}
	switch {
	case s.kind == sabotageStaleRead && read && versions[1] != nil && s.now():
		r.Object = versions[1]
	case s.kind == sabotageNotFound && read && s.now():
		r.Object, r.Error = nil, &coppicev1.Status{Reason: "NotFound", Message: "sabotage"}
	case s.kind == sabotageRevision && !read && s.now():
		o.Metadata.ResourceVersion++
	}
}

// batch changes a message of a watch, and reports whether it is sent.
func (s *saboteur) batch(watch string, b *coppicev1.WatchBatch) (send bool) {
	begins := s.begins(watch, b)
	if s.kind == sabotageList && b.GetPreviousRevision() == 0 && len(b.Events) > 0 {
		b.Events = b.Events[1:]
	}
	if b.GetPreviousRevision() == 0 || b.GetRevision() == 0 || len(b.Events) == 0 {
		return true // it is not about changes
	}
	if delayed := s.delayed; delayed != nil {
		s.delayed = nil
		switch s.kind {
		case sabotageReorder:
			b.Events = append(b.Events, delayed.Events...)
			b.PreviousRevision = delayed.PreviousRevision
		case sabotageBookmark:
			b.Events = append(delayed.Events, b.Events...)
		}
		return true
	}
	switch s.kind {
	case sabotageDuplicate:
		if s.last != nil && s.last.GetObject().GetMetadata().GetResourceVersion() == b.GetPreviousRevision() && s.now() {
			b.Events = append([]*coppicev1.WatchEvent{s.last}, b.Events...)
		}
		s.last = b.Events[len(b.Events)-1]
	case sabotageResume:
		if begins {
			b.Events = nil
		}
	case sabotageDrop:
		if !begins && s.now() {
			b.Events = b.Events[:len(b.Events)-1]
		}
	case sabotageReorder:
		if s.now() {
			s.delayed = b
			return false
		}
	case sabotageBookmark:
		if s.now() {
			s.delayed = proto.CloneOf(b)
			b.Events = nil
		}
	case sabotageOldContent:
		last := b.Events[len(b.Events)-1].GetObject()
		if s.now() && len(last.GetSpec()) > 0 {
			last.Spec = []byte(`"an older value"`)
		}
	}
	return true
}

// begins reports whether a message is the first of a watch that has resumed.
func (s *saboteur) begins(watch string, b *coppicev1.WatchBatch) bool {
	_, had := s.watching[watch]
	s.watching[watch] = true
	return !had && b.GetPreviousRevision() != 0
}
