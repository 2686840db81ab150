package mirror

import "time"

// rateSeconds is the time over which a rate is measured.
const rateSeconds = 10

// rate counts events of the last seconds.
type rate struct {
	counts [rateSeconds]uint32 // by the second, modulo
	last   int64               // the second up to which the counts are
}

func (r *rate) advance(now time.Time) {
	s := now.Unix()
	for at := max(r.last+1, s-rateSeconds+1); at <= s; at++ {
		r.counts[at%rateSeconds] = 0
	}
	r.last = max(r.last, s)
}

func (r *rate) add(now time.Time) {
	r.advance(now)
	r.counts[now.Unix()%rateSeconds]++
}

func (r *rate) merge(o *rate, now time.Time) {
	r.advance(now)
	o.advance(now)
	for i, n := range o.counts {
		r.counts[i] += n
	}
}

// perSecond returns the events in a second over the last ten seconds, or over age if that is shorter and at least 1 s.
func (r *rate) perSecond(now time.Time, age time.Duration) float64 {
	r.advance(now)
	var sum uint32
	for _, n := range r.counts {
		sum += n
	}
	return float64(sum) / min(max(age.Seconds(), 1), rateSeconds)
}
