package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The key-value buckets, which only graph services may write. No key expires.
const (
	// RealmBucket has the list of realms. Its keys are their names.
	RealmBucket = "coppice-realms"
	// LeaseBucket has a key for each graph service: see MemberKey.
	LeaseBucket = "coppice-leases"
	// WriterBucket has the claims of each realm's writer and archiver, and up to where its log was
	// cut. The key of a writer's claim is the name of the realm; see ArchiverClaim and CutKey.
	WriterBucket = "coppice-writers"
)

// ArchiverClaim returns the key of the claim of a realm's archiver in WriterBucket.
func ArchiverClaim(realm string) string { return realm + ".archiver" }

// cutKey is the suffix of CutKey.
const cutKey = ".cut"

// CutKey returns the key in WriterBucket that says up to where the messages of a realm's log may have
// been cut.
func CutKey(realm string) string { return realm + cutKey }

// IsCutKey reports whether a key of WriterBucket is a CutKey, and not a claim.
func IsCutKey(key string) bool { return strings.HasSuffix(key, cutKey) }

// IsWriterClaim reports whether a key of WriterBucket is that of a writer's claim.
func IsWriterClaim(key string) bool { return !strings.Contains(key, ".") }

// memberKey is the prefix of keys in LeaseBucket.
const memberKey = "process."

// MemberKey returns the key of a graph service in LeaseBucket. id identifies its directory.
func MemberKey(id string) string { return memberKey + id }

// IDOfMember returns the id of a MemberKey.
func IDOfMember(key string) (id string, ok bool) { return strings.CutPrefix(key, memberKey) }

// bucketStream returns the name of the stream of a bucket.
func bucketStream(bucket string) string { return "KV_" + bucket }

// bucketSubject returns the subject of a key of a bucket.
func bucketSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// bucketConfig returns the configuration of the stream of a bucket. Its keys are read from
// the server that leads the stream: a copy that lags would show a lease as it was.
func bucketConfig(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              bucketStream(bucket),
		Description:       "keys of Coppice's graph services",
		Subjects:          []string{bucketSubject(bucket, ">")},
		Storage:           jetstream.FileStorage,
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		AllowRollup:       true,
		DenyDelete:        true,
		Replicas:          replicas,
	}
}

// EnsureBucket opens a bucket, and creates it if it does not exist.
func EnsureBucket(ctx context.Context, js jetstream.JetStream, bucket string, replicas int) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if err = ensureStream(ctx, js, bucketConfig(bucket, replicas)); err == nil {
			kv, err = js.KeyValue(ctx, bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return kv, nil
}

// InstalledReplicas returns how many servers store the list of realms, as many as the graph services of an
// installation were configured for, and 0 if it has no list yet.
func InstalledReplicas(ctx context.Context, js jetstream.JetStream) (int, error) {
	info, err := BucketInfo(ctx, js, RealmBucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Config.Replicas, nil
}

// BucketInfo returns the state of a bucket at the NATS server that leads its stream.
func BucketInfo(ctx context.Context, js jetstream.JetStream, bucket string) (*jetstream.StreamInfo, error) {
	stream, err := js.Stream(ctx, bucketStream(bucket))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return stream.CachedInfo(), nil
}

// BucketEntry is a key of a bucket.
type BucketEntry struct {
	Key      string
	Value    []byte
	Revision uint64
	// Time is when the NATS server stored the value, if ReadKey has read it.
	Time time.Time
}

// ReadKey reads a key of a bucket from the server that leads the bucket's stream. Revision is zero if there
// never was one, and there is no Value if it was deleted.
func ReadKey(ctx context.Context, js jetstream.JetStream, bucket, key string) (BucketEntry, error) {
	m, err := ReadFromLeader(ctx, js.Conn(), LeaderRead{Stream: bucketStream(bucket), Last: bucketSubject(bucket, key)})
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return BucketEntry{}, err
	}
	return BucketEntry{Key: key, Value: m.Data, Revision: m.Sequence, Time: m.Time}, nil
}

// deleteKey deletes a key of a bucket, if there is one.
func deleteKey(ctx context.Context, js jetstream.JetStream, bucket, key string) error {
	entry, err := ReadKey(ctx, js, bucket, key)
	if err != nil || len(entry.Value) == 0 {
		return err
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err == nil {
		err = kv.Delete(ctx, key, jetstream.LastRevision(entry.Revision))
	}
	if err != nil {
		return fmt.Errorf("bucket %s: key %s: %w", bucket, key, err)
	}
	return nil
}

// BucketReader has the content of a bucket as it was read last. It reads from the server that
// leads the bucket's stream, and needs no consumer. It is not safe for concurrent use.
type BucketReader struct {
	js      jetstream.JetStream
	bucket  string
	created time.Time // when the stream was
	last    uint64    // the last sequence that was read
	changed bool      // since Update succeeded last
	entries map[string]BucketEntry
}

// NewBucketReader returns a reader that has read nothing.
func NewBucketReader(js jetstream.JetStream, bucket string) *BucketReader {
	return &BucketReader{js: js, bucket: bucket}
}

// Version identifies the content that was read. Two versions can only be compared for
// equality.
func (r *BucketReader) Version() string { return fmt.Sprintf("%d-%d", r.created.UnixNano(), r.last) }

// Entries returns the keys, ordered. They must not be changed.
func (r *BucketReader) Entries() []BucketEntry {
	list := slices.Collect(maps.Values(r.entries))
	slices.SortFunc(list, func(a, b BucketEntry) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// Update reads what has changed since it succeeded last, and reports whether anything has. It
// sends one small request, and another for each key that has changed.
func (r *BucketReader) Update(ctx context.Context) (changed bool, err error) {
	stream, err := r.js.Stream(ctx, bucketStream(r.bucket))
	if err != nil {
		return false, fmt.Errorf("bucket %s: %w", r.bucket, err)
	}
	info := stream.CachedInfo()
	if !info.Created.Equal(r.created) {
		r.created, r.last, r.entries, r.changed = info.Created, 0, map[string]BucketEntry{}, true
	}
	prefix := bucketSubject(r.bucket, "")
	for r.last < info.State.LastSeq {
		m, err := stream.GetMsg(ctx, r.last+1, jetstream.WithGetMsgSubject(prefix+">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			r.last = info.State.LastSeq // newer messages have replaced the others
			break
		}
		if err != nil {
			return false, fmt.Errorf("bucket %s: %w", r.bucket, err)
		}
		key := strings.TrimPrefix(m.Subject, prefix)
		if m.Header.Get("KV-Operation") != "" { // it was deleted
			delete(r.entries, key)
		} else {
			r.entries[key] = BucketEntry{Key: key, Value: m.Data, Revision: m.Sequence}
		}
		r.last, r.changed = m.Sequence, true
	}
	changed, r.changed = r.changed, false
	return changed, nil
}
