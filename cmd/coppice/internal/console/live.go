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
	maxAsk     = 4 << 10 // bytes of a message of the browser
	maxAsks    = 32      // that a tab follows at once
	sendTime   = 10 * time.Second
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
	t := &tab{ctx: ctx, conn: conn, sendTime: sendTime, user: n.user, cancel: cancel, asks: map[int]*following{}}
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

	asks map[int]*following // of read alone
}

// following is what a tab follows.
type following struct {
	end  context.CancelFunc
	done chan struct{} // closed when it has ended
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
	f := &following{end: end, done: make(chan struct{})}
	t.asks[a.ID] = f
	t.group.Go(func() {
		defer close(f.done)
		defer end()
		if err := t.news(ctx, a); err != nil && ctx.Err() == nil {
			t.send(view.News{ID: a.ID, Error: &failureOf(err).Failure})
		}
	})
}

// news sends what is new in a view, until ctx ends.
func (t *tab) news(ctx context.Context, a view.Ask) error {
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
	sending, cancel := context.WithTimeout(t.ctx, t.sendTime)
	defer cancel()
	if err := t.conn.Write(sending, websocket.MessageText, data); err != nil && !errors.Is(err, context.Canceled) {
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
		waiting, cancel := context.WithTimeout(t.ctx, pingPeriod)
		err := t.conn.Ping(waiting)
		cancel()
		if err != nil {
			t.cancel()
			return
		}
	}
}
