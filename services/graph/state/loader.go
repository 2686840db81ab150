package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Loader fills the state in an empty directory with rows that are sorted already. It writes
// them into Pebble's tables and ingests these all at once, together with the checkpoint: if
// the load is interrupted, the state stays empty. A Loader needs the memory of a few blocks.
// It is for one goroutine.
type Loader struct {
	s      *State
	fs     vfs.FS
	last   []byte // key
	paths  []string
	w      *sstable.Writer // nil between two tables
	fill   int             // bytes in w
	most   int             // maximum value of fill, in bytes, before the next of Pebble's tables begins
	format sstable.WriterOptions
	rows   map[byte]bool // tables that are complete, or begun

	kinds kindCounter
}

// loadedTable is the size in bytes at which a Loader begins the next of Pebble's tables.
const loadedTable = 64 << 20

// NewLoader creates an empty state in dir, which must be an empty directory or not exist. Finish
// or Abort must be called.
func NewLoader(dir string, c Config) (*Loader, error) {
	s, err := Open(dir, c)
	if err != nil {
		return nil, err
	}
	l := &Loader{s: s, fs: s.fs, most: loadedTable, rows: map[byte]bool{}}
	if s.Checkpoint().GetSequence() != 0 {
		return nil, errors.Join(fmt.Errorf("state: load into %s: there is a state already, at commit %d", dir, s.Checkpoint().GetSequence()), s.Close())
	}
	o := s.options.Clone()
	o.EnsureDefaults()
	// The tables become those of the lowest level.
	l.format = o.MakeWriterOptions(len(o.Levels)-1, s.db.TableFormat())
	return l, nil
}

// Add adds a row. The rows of a table must be added one after another, in the order of their
// keys.
func (l *Loader) Add(key, value []byte) error {
	switch {
	case len(key) == 0 || key[0] == tableMeta:
		return fmt.Errorf("state: load: %x is not the key of a row that can be loaded", key)
	case len(l.last) == 0 || l.last[0] != key[0]:
		if l.rows[key[0]] {
			return fmt.Errorf("state: load: a row of table %q follows rows of other tables", key[0])
		}
		l.rows[key[0]] = true
	case bytes.Compare(l.last, key) >= 0:
		return fmt.Errorf("state: load: key %x is not after key %x", key, l.last)
	}
	if key[0] == tableName {
		l.kinds.count(key)
	}
	return l.add(key, value)
}

func (l *Loader) add(key, value []byte) error {
	if l.w != nil && (l.fill >= l.most || l.last[0] != key[0]) {
		if err := l.end(); err != nil {
			return err
		}
	}
	if l.w == nil {
		path := l.fs.PathJoin(l.s.dir, fmt.Sprintf("load-%06d.sst", len(l.paths)))
		f, err := l.fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return fmt.Errorf("state: load: %w", err)
		}
		l.paths = append(l.paths, path)
		l.w, l.fill = sstable.NewWriter(objstorageprovider.NewFileWritable(f), l.format), 0
	}
	l.last = append(l.last[:0], key...)
	l.fill += len(key) + len(value)
	if err := l.w.Set(key, value); err != nil {
		return fmt.Errorf("state: load: %w", err)
	}
	return nil
}

// end completes one of Pebble's tables.
func (l *Loader) end() error {
	w := l.w
	if l.w = nil; w == nil {
		return nil
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("state: load: %w", err)
	}
	return nil
}

// Finish adds the checkpoint and closes the state, which is then on disk. If it fails, the
// state is closed and must be removed.
func (l *Loader) Finish(ctx context.Context, cp *coppicev1.Checkpoint) error {
	v, err := proto.MarshalOptions{Deterministic: true}.Marshal(cp)
	if err == nil && !l.rows[tableKind] { // layouts before 8 have none
		err = l.kinds.each(l.add)
	}
	if err == nil {
		err = l.add(keyCheckpoint, v)
	}
	if err == nil {
		err = l.add(keySchema, []byte(strconv.Itoa(schema)))
	}
	if err == nil {
		err = l.end()
	}
	if err != nil {
		return errors.Join(err, l.Abort())
	}
	if err := l.s.failures.guard(func() error { return l.s.db.Ingest(ctx, l.paths) }); err != nil {
		return errors.Join(fmt.Errorf("state: load: %w", err), l.Abort())
	}
	return errors.Join(l.s.Sync(), l.s.Close())
}

// Abort closes the state, which must be removed.
func (l *Loader) Abort() error { return errors.Join(l.end(), l.s.Close()) }
