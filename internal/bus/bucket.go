package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// The key-value buckets, which only graph services may write. No key expires.
const (
	// RealmBucket has the list of realms. Its keys are their names.
	RealmBucket = "coppice-realms"
	// LeaseBucket has a key for each graph service: see MemberKey.
	LeaseBucket = "coppice-leases"
	// WriterBucket has the claims of each realm's writer and archiver. The key of a writer's
	// is the name of the realm; see ArchiverClaim.
	WriterBucket = "coppice-writers"
)

// ArchiverClaim returns the key of the claim of a realm's archiver in WriterBucket.
func ArchiverClaim(realm string) string { return realm + ".archiver" }

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

// bucketConfig returns the configuration of the stream of a bucket. Its keys are read from
// the server that leads the stream: a copy that lags would show a lease as it was.
func bucketConfig(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              bucketStream(bucket),
		Description:       "keys of Coppice's graph services",
		Subjects:          []string{"$KV." + bucket + ".>"},
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

// BucketInfo returns the state of a bucket at the NATS server that leads its stream.
func BucketInfo(ctx context.Context, js jetstream.JetStream, bucket string) (*jetstream.StreamInfo, error) {
	stream, err := js.Stream(ctx, bucketStream(bucket))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return stream.CachedInfo(), nil
}

// BucketVersion identifies the content of a bucket. Two versions can only be compared for
// equality. It costs one small request.
func BucketVersion(ctx context.Context, js jetstream.JetStream, bucket string) (string, error) {
	info, err := BucketInfo(ctx, js, bucket)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%d", info.Created.UnixNano(), info.State.LastSeq), nil
}

// ReadBucket returns all keys of a bucket.
func ReadBucket(ctx context.Context, kv jetstream.KeyValue) ([]jetstream.KeyValueEntry, error) {
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", kv.Bucket(), err)
	}
	defer func() { _ = w.Stop() }()
	var entries []jetstream.KeyValueEntry
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("bucket %s: %w", kv.Bucket(), ctx.Err())
		case entry, ok := <-w.Updates():
			if !ok {
				return nil, fmt.Errorf("bucket %s: it was not read to its end", kv.Bucket())
			}
			if entry == nil {
				return entries, nil
			}
			entries = append(entries, entry)
		}
	}
}
