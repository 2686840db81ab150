// Package workerpool runs things alongside, in goroutines that stay for the next: in a new
// goroutine the stack has to grow first, each time, which takes longer than many a
// thing that is done for one command.
package workerpool

// Pool runs functions in goroutines that it keeps. It has as many goroutines as functions
// have run at once. It is safe for concurrent use.
type Pool struct{ idle chan func() }

// New returns a worker pool, which ends with Dismiss.
func New() *Pool { return &Pool{make(chan func())} }

// Go begins to do something, and does not wait for it. It must not be called once
// the worker pool is dismissed.
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

// Dismiss lets the goroutines end once they have done what they have begun.
func (c *Pool) Dismiss() { close(c.idle) }
