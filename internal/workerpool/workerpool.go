// Package workerpool runs functions in goroutines that are used again. The stack of a new
// goroutine has to grow first, which can take longer than the work for one command.
package workerpool

// Pool runs functions in goroutines that it keeps. It has as many goroutines as functions
// have run at once. It is safe for concurrent use.
type Pool struct{ idle chan func() }

// New returns a worker pool. Dismiss ends it.
func New() *Pool { return &Pool{make(chan func())} }

// Go runs do in a goroutine of the pool, and does not wait for it. It must not be called
// after Dismiss.
func (c *Pool) Go(do func()) {
	select {
	case c.idle <- do:
	default:
		go func() {
			for do := do; do != nil; do = <-c.idle {
				do()
			}
		}()
	}
}

// Dismiss ends the goroutines when their current functions have returned. It does not wait
// for them.
func (c *Pool) Dismiss() { close(c.idle) }
