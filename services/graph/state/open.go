package state

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config configures a State. A zero field has its default value.
type Config struct {
	// CacheSize is the size of Pebble's block cache in bytes. The default is 256 MiB.
	// Up to four memtables are taken out of it.
	CacheSize int64
	// Cache is a block cache that several states share, instead of one of CacheSize.
	Cache *pebble.Cache
	// MemTableSize is the size of a memtable in bytes. The default is 64 MiB. After a crash
	// the commits whose effects were in memtables are folded again.
	MemTableSize uint64
	// FS is the file system. The default is the operating system's.
	FS vfs.FS
}

// NewCache returns a cache for several states, of CacheSize. It must be unreferenced
// when they are closed.
func NewCache(c Config) *pebble.Cache { return pebble.NewCache(cmp.Or(c.CacheSize, 256<<20)) }

// memTables is the number of memtables at which writes wait.
const memTables = 4

// separateBodies is the size in bytes from which on Pebble stores values separately from
// their keys. Only bodies are that large.
const separateBodies = 180

// Open opens the state in dir, or creates an empty one. The error wraps ErrLocked, ErrDamaged,
// ErrSchema, a NewerError or an UnfinishedError if that is why the state cannot be used.
func Open(dir string, c Config) (*State, error) {
	s, err := open(dir, c)
	if err != nil {
		return nil, fmt.Errorf("state: open %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, c Config) (*State, error) {
	if c.MemTableSize == 0 {
		c.MemTableSize = 64 << 20
	}
	own := c.FS == nil
	if own {
		c.FS = datadir.FS()
	}
	if err := finishReplace(c.FS, dir); err != nil {
		return nil, err
	}
	if own {
		if err := datadir.Own(dir); err != nil {
			return nil, err
		}
	}
	if err := c.FS.MkdirAll(dir, datadir.DirMode); err != nil {
		return nil, err
	}
	// Pebble syncs the parent only of a directory that it has created itself.
	if err := syncDir(c.FS, c.FS.PathDir(dir)); err != nil {
		return nil, err
	}
	if err := marked(c.FS, dir); err != nil {
		return nil, err
	}
	failures := newFailures()
	failures.mark = func(why error) error { return mark(c.FS, dir, why) }
	cache := c.Cache
	if cache == nil {
		cache = NewCache(c)
		defer cache.Unref()
	}
	opts := &pebble.Options{
		FS:    c.FS,
		Cache: cache,
		// No write-ahead log: after a crash the realm's log is folded again from the
		// checkpoint, which is in the same memtable as the effects.
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatValueSeparation,
		MemTableSize:                c.MemTableSize,
		MemTableStopWritesThreshold: memTables,
		// Names are written in random order, so each compaction out of L0 rewrites nearly
		// all names below it. A few large compactions cost less than many small ones, and
		// make reads a little slower.
		L0CompactionThreshold:      12,
		L0StopWritesThreshold:      48,
		LBaseMaxBytes:              256 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		MaxOpenFiles:               512,
		Logger:                     failures,
		EventListener: &pebble.EventListener{
			BackgroundError: failures.fail,
			DataCorruption:  failures.corrupt,
		},
	}
	for i := range opts.Levels {
		// Rows that are read together are neighbours: a reader of one row of a block
		// usually reads others.
		opts.Levels[i].BlockSize = 32 << 10
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// Bodies are written once, in L0, and read one by one.
	opts.Levels[0].BlockSize = 8 << 10
	// A cascade reads no bodies, and compactions should not rewrite them either.
	opts.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: separateBodies, MaxBlobReferenceDepth: 10,
			RewriteMinimumAge: 5 * time.Minute, TargetGarbageRatio: 0.5,
		}
	}
	// Tombstones of a cascade do not trigger compactions of their own while the cascade
	// runs: a walk does not read the deleted range again.
	opts.Experimental.TombstoneDenseCompactionThreshold = -1
	var db *pebble.DB
	err := failures.guard(func() error {
		return protect(func() (err error) {
			db, err = pebble.Open(dir, opts)
			return err
		})
	})
	if err != nil {
		if strings.Contains(err.Error(), "resource temporarily unavailable") || strings.Contains(err.Error(), "lock held") {
			return nil, ErrLocked
		}
		return nil, ofDamage(err)
	}
	if err := checkBlobs(c.FS, dir, db); err != nil {
		return nil, errors.Join(err, protect(db.Close))
	}
	s := &State{
		db: db, dir: dir, fs: c.FS, options: opts, failures: failures,
		removed:  newWindow[uint64](keptRemovals),
		commands: newCommands(commandMemory),
		recent:   newRecent(),
		// Twice the size of the memtables at which writes wait.
		nameFilter: newNameFilter(2 * memTables * int(c.MemTableSize)),
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(ofDamage(err), protect(db.Close))
	}
	return s, nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reads the rows that are kept in memory.
func (s *State) load() error {
	r := reader{db: s.db, failures: s.failures}
	s.head.checkpoint = &coppicev1.Checkpoint{}
	current := false
	r.get("schema", keySchema, func(v []byte) error {
		version, err := strconv.ParseUint(string(v), 10, 32)
		if err == nil && version > schema {
			return &NewerError{Schema: uint32(version)}
		}
		if err != nil || !readable(uint32(version)) {
			return fmt.Errorf("%w: %s, not %d", ErrSchema, v, schema)
		}
		current = version == schema
		return nil
	})
	if !current && r.failure == nil {
		if err := s.upgrade(&r); err != nil {
			return err
		}
	}
	r.get("checkpoint", keyCheckpoint, func(v []byte) error {
		err := proto.Unmarshal(v, s.head.checkpoint)
		if err == nil && s.head.checkpoint.GetElidedUntil() != 0 {
			err = &UnfinishedError{s.head.checkpoint}
		}
		return err
	})
	s.loadKinds(&r)
	s.loadPolicies(&r)
	s.loadSettings(&r)
	s.loadRealm(&r)
	var removed []windowRow[uint64]
	r.scan("removed", []byte{tableRemoved}, nil, func(key, value []byte) bool {
		row := windowRow[uint64]{sequence: numberOfKey(key)}
		if err := decodeRemovals(value, func(e removal) { row.keys = append(row.keys, uidHash(e.uid)) }); err != nil {
			r.fail("removed", err)
		}
		removed = append(removed, row)
		return true
	})
	s.removed.update(removed, 0)
	s.commands.load(s.head.checkpoint)
	return r.err()
}

// upgrade writes the version of the layout into a state that is empty or has the rows of an
// earlier layout, with the rows of kinds that those layouts do not have.
func (s *State) upgrade(r *reader) error {
	var kinds kindCounter
	r.scan("names", []byte{tableName}, nil, func(key, _ []byte) bool {
		kinds.count(key)
		return true
	})
	if err := r.err(); err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	err := kinds.each(func(key, value []byte) error { return b.Set(key, value, nil) })
	if err == nil {
		err = b.Set(keySchema, []byte(strconv.Itoa(schema)), nil)
	}
	if err == nil {
		err = s.db.Apply(b, pebble.NoSync)
	}
	return err
}

func (s *State) loadKinds(r *reader) {
	s.head.kinds = lifecycle.NewKinds()
	registration := s.head.kinds.Of(lifecycle.Group, "Kind")
	r.scan("kinds", namePrefix(registration.Resource(), ""), nil, func(_, value []byte) bool {
		u := uid.UID(value)
		n, _ := r.node(u)
		if n == nil {
			r.fail("kinds", errCorrupt)
			return false
		}
		kinds, err := s.head.kinds.With(n, r.body(u))
		if err != nil {
			r.fail("kinds", err)
			return false
		}
		s.head.kinds = kinds
		return true
	})
}

func (s *State) loadPolicies(r *reader) {
	kind := s.head.kinds.Of(lifecycle.Group, "ProtectionPolicy")
	if kind == nil {
		return
	}
	r.scan("policies", namePrefix(kind.Resource(), ""), nil, func(_, value []byte) bool {
		u := uid.UID(value)
		n, _ := r.node(u)
		if n == nil {
			r.fail("policies", errCorrupt)
			return false
		}
		kinds, err := s.head.kinds.WithPolicy(n, r.body(u))
		if err != nil {
			r.fail("policies", err)
			return false
		}
		s.head.kinds = kinds
		return true
	})
}

func (s *State) loadSettings(r *reader) {
	s.head.settings = lifecycle.DefaultSettings()
	kind := s.head.kinds.Of(lifecycle.Group, "Realm")
	if kind == nil {
		return
	}
	u := r.lookup(kind.Resource(), "", lifecycle.SettingsName)
	if u == "" {
		return
	}
	settings, err := lifecycle.SettingsOf(r.body(u))
	if err != nil {
		r.fail("settings", err)
	}
	s.head.settings = settings
}

// NewerError is returned by Open for a state that a newer version of Coppice has written. The
// state is not changed.
type NewerError struct {
	Schema uint32 // the version of its layout; 0 if Pebble cannot open it
}

func (e *NewerError) Error() string {
	what := fmt.Sprintf("the state has version %d of the layout, and this program reads versions up to %d", e.Schema, schema)
	if e.Schema == 0 {
		what = "the state has a newer version of Pebble's format than this program reads"
	}
	return what + ": use the version of Coppice that wrote it, or a newer one. If the log has not been written by a newer version, 'coppice rebuild' replaces the state by a replay of the log"
}

// ErrSchema is returned by Open for a state of an earlier version, which this one does not read. Remove the state to have
// it folded again from the log.
var ErrSchema = errors.New("the state has the layout of another version")

// UnfinishedError is returned by Open for a state whose rebuild was interrupted: see
// Tx.Pass. Remove the state to have it folded again, if the log is the one that Checkpoint
// names.
type UnfinishedError struct{ Checkpoint *coppicev1.Checkpoint }

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("the rebuild of the state was interrupted at sequence %d of %d",
		e.Checkpoint.GetSequence(), e.Checkpoint.GetElidedUntil())
}
