package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// The limits of a tab.
const (
	maxAsk     = 128 << 10 // bytes of a message of the browser
	maxAsks    = 32        // that a tab follows at once
	sendTime   = 10 * time.Second
	graphTime  = time.Minute // for a message of a graph, which can have several MB
	pingPeriod = 20 * time.Second
)

// signedOutCode closes the WebSocket of a session that has ended.
const signedOutCode = websocket.StatusCode(4401)

// live serves the WebSocket of a tab, until the tab or the session ends.
func (s *Server) live(w http.ResponseWriter, r *http.Request, n *session) {
	select {
	case n.tabs <- struct{}{}:
		defer func() { <-n.tabs }()
	default:
		refuse(w, http.StatusTooManyRequests, "TooManyRequests", "this session has too many tabs; close some")
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, InsecureSkipVerify: true}) // guard has checked the origin
	if err != nil {
		return // it has replied
	}
	s.metrics.tabs.Inc()
	defer s.metrics.tabs.Dec()
	conn.SetReadLimit(maxAsk)
	// The end of a context closes the WebSocket without a reason. So that of the tab is not that of the session.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	stop := context.AfterFunc(n.ctx, func() {
		_ = conn.Close(signedOutCode, "the session has ended")
		cancel()
	})
	defer stop()
	t := &tab{ctx: ctx, conn: conn, sendTime: sendTime, user: n.user, cancel: cancel, sending: make(chan struct{}, 1), asks: map[int]*following{}}
	t.group.Go(t.ping)
	t.group.Go(t.connection)
	t.read()
	cancel()
	t.group.Wait()
	_ = conn.CloseNow()
}

// tab is a tab of a browser. Its news are sent by one goroutine for each thing that it has asked for.
type tab struct {
	ctx    context.Context // ends with the tab, and closes the WebSocket
	conn   *websocket.Conn
	user   *user
	cancel context.CancelFunc
	// sendTime is the time in which the browser must accept a message.
	sendTime time.Duration
	group    sync.WaitGroup
	// sending is held while something is sent: the time for a message begins when the one before is sent.
	sending chan struct{}

	asks map[int]*following // of read alone
}

// following is what a tab follows.
type following struct {
	end  context.CancelFunc
	done chan struct{} // closed when it has ended
	what view.Ask
	asks chan view.Ask // what a graph is to show instead
}

// change makes a graph show something else. It returns false if that needs another following.
func (f *following) change(a view.Ask) bool {
	if a.End || a.View != view.ViewGraph || f.what.View != a.View || f.what.Realm != a.Realm {
		return false
	}
	select {
	case <-f.done:
		return false
	case <-f.asks: // it was not begun with
	default:
	}
	f.asks <- a // only this goroutine sends
	return true
}

// read reads what the browser asks for.
func (t *tab) read() {
	for {
		kind, data, err := t.conn.Read(t.ctx)
		if err != nil {
			return
		}
		var a view.Ask
		if kind != websocket.MessageText || json.Unmarshal(data, &a) != nil || a.ID == 0 {
			_ = t.conn.Close(websocket.StatusUnsupportedData, "not a message of the console")
			return
		}
		t.follow(a)
	}
}

// follow begins or ends what the browser asks for. It waits until what had the same ID has ended: a browser that does not
// read is not read any more.
func (t *tab) follow(a view.Ask) {
	if old := t.asks[a.ID]; old != nil {
		if old.change(a) {
			return
		}
		old.end()
		<-old.done
		delete(t.asks, a.ID)
	}
	if a.End {
		return
	}
	if len(t.asks) >= maxAsks {
		t.send(view.News{ID: a.ID, Error: &view.Failure{Reason: "TooManyRequests", Message: "this page asks for too much at once"}})
		return
	}
	ctx, end := context.WithCancel(t.ctx)
	f := &following{end: end, done: make(chan struct{}), what: a, asks: make(chan view.Ask, 1)}
	t.asks[a.ID] = f
	t.group.Go(func() {
		defer close(f.done)
		defer end()
		if err := t.news(ctx, f); err != nil && ctx.Err() == nil {
			t.refuse(a.ID, err)
		}
	})
}

// news sends what is new in a view, until ctx ends.
func (t *tab) news(ctx context.Context, f *following) error {
	a := f.what
	r, err := t.user.open(ctx, a.Realm)
	if err != nil {
		return err
	}
	switch a.View {
	case view.ViewOverview:
		return r.followOverview(ctx, func(encoded []byte) { t.send(rawOverview{a.ID, encoded}) })
	case view.ViewObject:
		return r.followObject(ctx, a.UID, func() { t.send(view.News{ID: a.ID, Changed: true}) })
	case view.ViewDeletion:
		return r.followDeletion(ctx, a.UID, a.After, func(p *view.Progress) { t.send(view.News{ID: a.ID, Deletion: p}) })
	case view.ViewEvents:
		return r.followEvents(ctx, a.Events, a.After, func(e *view.Events) { t.send(view.News{ID: a.ID, Events: e}) })
	case view.ViewGraph:
		return r.followGraph(ctx, a, f.asks, t.sendGraph, func(err error) { t.refuse(a.ID, err) })
	}
	return badRequest("there is no view %q", clip(a.View))
}

// rawOverview is view.News with an overview that is encoded once for all tabs.
type rawOverview struct {
	ID       int             `json:"id"`
	Overview json.RawMessage `json:"overview"`
}

// connection reports when the connection to NATS is lost, and when it is back.
func (t *tab) connection() {
	lost, version := t.user.lost.get()
	for {
		if lost != "" {
			t.send(view.News{Lost: lost})
		}
		was := lost
		var err error
		if lost, version, err = t.user.lost.next(t.ctx, version); err != nil {
			return
		}
		if was != "" && lost == "" {
			t.send(view.News{Found: true})
		}
	}
}

// send sends a message. If the browser does not accept it in time, the WebSocket is closed, and the tab makes another one.
func (t *tab) send(message any) {
	data, err := json.Marshal(message)
	if err != nil {
		panic(err) // a type of this package
	}
	t.write(websocket.MessageText, data, t.sendTime)
}

// refuse sends why there are no news.
func (t *tab) refuse(id int, err error) {
	t.send(view.News{ID: id, Error: &failureOf(err).Failure})
}

// sendGraph sends a message of a graph.
func (t *tab) sendGraph(message []byte) { t.write(websocket.MessageBinary, message, graphTime) }

func (t *tab) write(kind websocket.MessageType, data []byte, within time.Duration) {
	t.using(within, func(ctx context.Context) error { return t.conn.Write(ctx, kind, data) })
}

// using calls send when nothing else is being sent. If it fails, the WebSocket is closed.
func (t *tab) using(within time.Duration, send func(context.Context) error) {
	select {
	case <-t.ctx.Done():
		return
	case t.sending <- struct{}{}:
		defer func() { <-t.sending }()
	}
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	if err := send(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.cancel()
	}
}

// ping notices that a browser is gone.
func (t *tab) ping() {
	tick := time.NewTicker(pingPeriod)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		t.using(pingPeriod, t.conn.Ping)
	}
}
