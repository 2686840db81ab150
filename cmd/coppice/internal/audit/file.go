package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/datadir"
)

// maxLine is the maximum size of a line that resume reads, in bytes.
const maxLine = 4 << 20

// output is where lines are written. It is safe for concurrent use.
type output struct {
	mu     sync.Mutex
	w      *bufio.Writer
	file   *os.File // nil for stdout
	dirty  bool     // something is not synced
	failed error    // of an earlier write or sync: the system reports a failure once
	stop   func()
}

// syncEvery is the time after which lines are on disk.
const syncEvery = time.Second

func newOutput(w io.Writer, file *os.File) *output {
	o := &output{w: bufio.NewWriterSize(w, 1<<16), file: file}
	stopping, stopped := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(syncEvery)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stopping:
				return
			case <-tick.C:
				_ = o.sync() // the next write returns the error too
			}
		}
	}()
	o.stop = func() {
		tick.Stop()
		close(stopping)
		<-stopped
	}
	return o
}

// write writes the lines of a commit. Others see them within syncEvery.
func (o *output) write(lines []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil && len(lines) > 0 {
		o.dirty = true
		_, o.failed = o.w.Write(lines)
	}
	return o.failed
}

// sync writes what is in memory, and waits until it is on disk.
func (o *output) sync() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil || !o.dirty {
		return o.failed
	}
	o.dirty = false
	if o.failed = o.w.Flush(); o.failed == nil && o.file != nil {
		o.failed = o.file.Sync()
	}
	return o.failed
}

// close syncs and closes the output.
func (o *output) close() error {
	o.stop()
	err := o.sync()
	if o.file != nil {
		err = errors.Join(err, o.file.Close())
	}
	return err
}

// create creates a file, which must not exist.
func create(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, datadir.FileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: continue it with --resume, or write into another file", name)
	}
	return f, err
}

// resume opens a file to continue it, and returns its last complete line; nil if it has none. It cuts off an incomplete
// last line, which a crash has left. A file that does not exist is created.
func resume(name, realm string) (f *os.File, last *Line, err error) {
	f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, datadir.FileMode)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return f, nil, err
	}
	if !info.Mode().IsRegular() {
		return f, nil, fmt.Errorf("%s is not a file, and cannot be resumed", name)
	}
	text, end, err := lastLine(f, info.Size())
	if err != nil {
		return f, nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > 0 {
		last = &Line{}
		if err := json.Unmarshal(text, last); err != nil || last.Type == "" || last.Position == 0 {
			return f, nil, fmt.Errorf("%s: its last line is none of 'coppice audit'; write into another file", name)
		}
		if last.Realm != realm {
			return f, nil, fmt.Errorf("%s is about realm %q; write into another file", name, last.Realm)
		}
	}
	if end < info.Size() {
		if err := incomplete(f, end); err != nil {
			return f, nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := f.Truncate(end); err != nil {
			return f, nil, err
		}
	}
	_, err = f.Seek(end, io.SeekStart)
	return f, last, err
}

// lastLine returns the last complete line of a file, and the offset behind it.
func lastLine(f io.ReaderAt, size int64) (text []byte, end int64, err error) {
	for room := int64(1 << 16); ; room *= 4 {
		from := max(0, size-room)
		tail := make([]byte, size-from)
		if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		behind := bytes.LastIndexByte(tail, '\n') + 1
		begin := bytes.LastIndexByte(tail[:max(behind-1, 0)], '\n') + 1
		switch {
		case begin > 0 || from == 0:
			return tail[begin:behind], from + int64(behind), nil
		case room > maxLine:
			return nil, 0, errors.New("its last line is too long for one of 'coppice audit'; write into another file")
		}
	}
}

// incomplete returns an error unless what follows a complete line can be the beginning of another one: nothing else is
// cut off.
func incomplete(f io.ReaderAt, from int64) error {
	const begin = `{"type":"`
	head := make([]byte, len(begin))
	n, err := f.ReadAt(head, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(head[:n]) != begin[:n] && !zeros(head[:n]) {
		return errors.New("its end is no line of 'coppice audit'; write into another file")
	}
	return nil
}

// zeros reports whether bytes are zero, as a crash of the machine leaves those that were not written.
func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
