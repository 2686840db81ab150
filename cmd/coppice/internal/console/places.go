package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// The limits of requests that search the log. Each may keep maxSearchKept events.
const (
	maxSearches    = 8 // at once, of all users
	searchesOfUser = 2 // at once
	maxSearchKept  = 10_000
)

// The limits of requests that wait for a place.
const (
	maxWaitingRequests = 50 // of a user
	placeTime          = 30 * time.Second
)

// places are for requests of a user that need much memory, so that many tabs do not fill it: the others wait.
type places struct {
	doing   string        // what the requests do, such as "search the log"
	all     chan struct{} // of all users
	own     chan struct{}
	waiting chan struct{}
}

func newPlaces(doing string, all chan struct{}, own int) *places {
	return &places{doing: doing, all: all, own: make(chan struct{}, own), waiting: make(chan struct{}, own+maxWaitingRequests)}
}

// take waits for a place, which leave releases.
func (p *places) take(ctx context.Context) (leave func(), err error) {
	select {
	case p.waiting <- struct{}{}:
	default:
		return nil, &client.Error{Reason: client.ErrTooManyRequests, Message: fmt.Sprintf("%d requests of your user %s or wait to do so; try again when some of them have their replies", cap(p.waiting), p.doing)}
	}
	taken := []chan struct{}{p.waiting}
	leave = func() {
		for _, place := range taken {
			<-place
		}
	}
	waiting, cancel := context.WithTimeout(ctx, placeTime)
	defer cancel()
	for _, place := range []chan struct{}{p.own, p.all} {
		select {
		case place <- struct{}{}:
			taken = append(taken, place)
		case <-waiting.Done():
			leave()
			if ctx.Err() == nil {
				return nil, &client.Error{Reason: client.ErrTooManyRequests, Message: fmt.Sprintf("too many requests %s: this one has waited %s for its turn; try again", p.doing, placeTime)}
			}
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

// searching serves a page that searches the log when there is a place for it.
func searching(page func(*realm, context.Context, *http.Request) (any, error)) func(*realm, context.Context, *http.Request) (any, error) {
	return func(r *realm, ctx context.Context, q *http.Request) (any, error) {
		leave, err := r.user.searches.take(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		return page(r, ctx, q)
	}
}
