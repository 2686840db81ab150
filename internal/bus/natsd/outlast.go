package natsd

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// How a server outlasts a full disk.
const (
	enoughRoom   = 16 << 20               // bytes that must be free for a restart: two of the largest messages
	lookForRoom  = 250 * time.Millisecond // between two looks for room
	restartPause = 2 * time.Second        // between two restarts, at least
)

// outlast restarts the server whenever its disk was full and has room again, until
// Shutdown. Connections reconnect to the new one, which reads its streams again: what
// was acknowledged is in them.
func (s *Server) outlast() {
	for s.await(s.full) {
		s.say("the disk of %s is full; the server is restarted when %d MiB are free", s.c.Dir, enoughRoom>>20)
		for !s.hasRoom() {
			if !s.pause(lookForRoom) {
				return
			}
		}
		s.end()
		select {
		case <-s.full: // the last words of the old one
		default:
		}
		for said := ""; ; {
			err := s.start()
			if err == nil {
				break
			}
			if err.Error() != said {
				said = err.Error()
				s.say("cannot restart after the disk was full; trying again: %v", err)
			}
			if !s.pause(restartPause) {
				return
			}
		}
		s.say("restarted, as the disk has room again")
		if !s.pause(restartPause) {
			return
		}
	}
}

// await waits for a token, and reports false when the server is to end.
func (s *Server) await(token <-chan struct{}) bool {
	select {
	case <-token:
		return true
	case <-s.stopping:
		return false
	}
}

// pause waits, and reports false when the server is to end.
func (s *Server) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.stopping:
		return false
	}
}

func (s *Server) hasRoom() bool {
	usage, err := vfs.Default.GetDiskUsage(s.c.Dir)
	return err == nil && usage.AvailBytes >= enoughRoom
}

func (s *Server) say(format string, args ...any) {
	if s.c.Logf != nil {
		s.c.Logf(format, args...)
	}
}

// logger passes on what a person should know, and notices that the disk is full. The
// server reports each failure to write once, with its cause.
type logger struct {
	logf func(format string, args ...any)
	full chan<- struct{}
}

func (l *logger) say(format string, args ...any) {
	// The passwords are drawn at the start and never leave memory.
	if l.logf == nil || strings.HasPrefix(format, "Plaintext passwords detected") {
		return
	}
	l.logf(format, args...)
}

func (l *logger) Noticef(string, ...any)            {}
func (l *logger) Debugf(string, ...any)             {}
func (l *logger) Tracef(string, ...any)             {}
func (l *logger) Warnf(format string, args ...any)  { l.say(format, args...) }
func (l *logger) Fatalf(format string, args ...any) { l.say(format, args...) }

func (l *logger) Errorf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
			select {
			case l.full <- struct{}{}:
			default:
			}
		}
	}
	l.say(format, args...)
}
