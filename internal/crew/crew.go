// Package crew runs things beside, in goroutines that stay for the next: in a new
// goroutine the stack has to grow first, each time, which takes longer than many a
// thing that is done for one command.
package crew

// Crew is safe for concurrent use. It has as many goroutines as it had to do at
// once.
type Crew struct{ idle chan func() }

// New returns a crew, which ends with Dismiss.
func New() *Crew { return &Crew{make(chan func())} }

// Go begins to do something, and does not wait for it. It must not be called once
// the crew is dismissed.
func (c *Crew) Go(do func()) {
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
func (c *Crew) Dismiss() { close(c.idle) }
