package archiver

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// pacer bounds what an archiver takes from the process that it runs in: bytes per second, and while it
// verifies a snapshot the share of its time in which it works. It is for one goroutine.
type pacer struct {
	bytes *rate.Limiter
	// speed multiplies the bounds: see Speed.
	speed float64
	// resumed is when the goroutine has begun to work; zero unless a snapshot is verified.
	resumed time.Time
	// rest is for how long the goroutine is still to rest for its work.
	rest time.Duration
	// looked is when speed and the room on the disk were measured.
	looked time.Time
}

// The work is measured, and followed by a rest, in steps of minRest.
const minRest = time.Millisecond

// lookRoom is the time between two looks at the size of the log and the room on the disk.
const lookRoom = time.Second

// Speed returns by how much an archiver works faster than its Limits say, given the size of the log in bytes and
// its retention: 1 up to the retention, and more and more up to 1.5 times the retention, from where on
// nothing slows it down (positive infinity).
func Speed(bytes uint64, keep lifecycle.Retention) float64 {
	if keep.Bytes == 0 {
		return 1
	}
	beyond := float64(bytes)/float64(keep.Bytes) - 1
	if beyond >= unlimitedBeyond {
		return math.Inf(1)
	}
	return 1 / (1 - max(beyond, 0)/unlimitedBeyond)
}

// unlimitedBeyond is the part of the retention by which the log exceeds it when nothing slows the archiver down.
const unlimitedBeyond = 0.5

// restFor returns for how long a verification rests after it has worked for some time, so that it works for a share of the
// time.
func restFor(worked time.Duration, share float64) time.Duration {
	if share >= 1 {
		return 0
	}
	return time.Duration(float64(worked) * (1/share - 1))
}

// verifying makes pace bound the work, too, until end is called.
func (p *pacer) verifying() (end func()) {
	p.resumed, p.rest, p.looked = time.Now(), 0, time.Time{}
	return func() { p.resumed = time.Time{} }
}

// pace waits so that the work stays within the Limits. During a verification it fails if the disk of the temporary files
// has too little room.
func (a *Archiver) pace(ctx context.Context, bytes int) error {
	p := &a.pacer
	if err := a.look(ctx); err != nil {
		return err
	}
	for burst := p.bytes.Burst(); bytes > 0 && !math.IsInf(p.speed, 1); bytes -= burst {
		if err := p.bytes.WaitN(ctx, min(bytes, burst)); err != nil {
			return err
		}
	}
	if p.resumed.IsZero() {
		return ctx.Err()
	}
	now := time.Now()
	p.rest += restFor(now.Sub(p.resumed), a.l.Share*p.speed)
	p.resumed = now
	if p.rest < minRest {
		return ctx.Err()
	}
	if !a.c.Busy() {
		p.rest = 0
		return ctx.Err()
	}
	err := a.sleep(ctx, p.rest)
	p.resumed, p.rest = time.Now(), 0
	return err
}

// look measures the size of the log and, during a verification, the room on the disk, unless it did so just before.
func (a *Archiver) look(ctx context.Context) error {
	p := &a.pacer
	if a.c.State == nil || time.Since(p.looked) < lookRoom { // see Rest for the state
		return nil
	}
	if e, err := a.c.Log.Extent(ctx); err == nil {
		p.speed = Speed(e.Bytes, a.c.State.Settings().LogRetention)
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	p.bytes.SetLimit(rate.Limit(float64(a.l.Rate) * min(p.speed, maxSpeed)))
	p.looked = time.Now()
	if p.resumed.IsZero() {
		return nil
	}
	return a.room(0)
}

// maxSpeed bounds the rate of bytes, which is not used at a higher speed.
const maxSpeed = 1 << 20

// room returns an error unless the disk of the temporary files has room for some bytes and the reserve, which the
// state needs. A disk that does not report its room counts as one with enough.
func (a *Archiver) room(bytes uint64) error {
	free, err := a.c.Free(a.c.Dir)
	needed := bytes + a.l.Reserve
	if err != nil || free >= needed {
		return nil //nolint:nilerr // a full disk is noticed when it is written
	}
	return fmt.Errorf("a snapshot cannot be verified: the disk of %s has %s free, and %s are needed, of which %s are a reserve for the state; make room, or the log cannot be cut",
		a.c.Dir, humanize.IBytes(free), humanize.IBytes(needed), humanize.IBytes(a.l.Reserve))
}

// paced is a reader that is paced.
type paced struct {
	ctx context.Context //nolint:containedctx // io.Reader has none
	w   *work
	in  io.Reader
}

func (p *paced) Read(b []byte) (n int, err error) {
	n, err = p.in.Read(b)
	if limited := p.w.pace(p.ctx, n); limited != nil {
		return n, limited
	}
	return n, err
}
