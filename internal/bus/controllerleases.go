package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ControllerBucket has the leases by which controllers elect a leader. Its keys are those of
// LeaseKey. Only graph services write it, for requests with the verb lease.
const ControllerBucket = "coppice-controllers"

// LeaseKey returns the key of a lease of an actor in ControllerBucket. The names of realms and actors have
// no dots, so that two leases never share a key.
func LeaseKey(realm, actor, name string) string { return realm + "." + actor + "." + name }

// LeasesOf returns the pattern of the subjects of all leases of an actor in a realm; AnyRealm or "*" for all.
func LeasesOf(realm, actor string) string {
	return bucketSubject(ControllerBucket, LeaseKey(realm, actor, ">"))
}

// CheckLease returns an error if the name of a lease is invalid.
func CheckLease(name string) error {
	alphanumeric := func(c byte) bool { return isLower(c) || isDigit(c) }
	inside := func(c byte) bool { return alphanumeric(c) || c == '-' || c == '.' || c == '/' }
	if n := len(name); n == 0 || n > 63 || !all(name, inside) || !alphanumeric(name[0]) || !alphanumeric(name[n-1]) || strings.Contains(name, "..") {
		return fmt.Errorf("%q is not the name of a lease: at most 63 lower case letters, digits, hyphens, dots and slashes, starting and ending with a letter or digit, such as example.com/sites", name)
	}
	return nil
}

// PutKey stores the value of a key of a bucket if the key has this revision, zero if the bucket does not
// have it. It returns the new revision.
func PutKey(ctx context.Context, js jetstream.JetStream, bucket, key string, value []byte, revision uint64) (uint64, error) {
	m := &nats.Msg{Subject: bucketSubject(bucket, key), Data: value}
	ack, err := js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithExpectStream(bucketStream(bucket)))
	if err != nil {
		return 0, fmt.Errorf("bucket %s: key %s: %w", bucket, key, err)
	}
	return ack.Sequence, nil
}

// DropKey removes a key of a bucket if it has this revision, without a mark that it was deleted. It does
// nothing if the key has a later one.
func DropKey(ctx context.Context, js jetstream.JetStream, bucket, key string, revision uint64) error {
	// A purge up to a sequence leaves the messages that follow. The bucket has one for each key.
	return purge(ctx, js, bucket, bucketSubject(bucket, key), jetstream.WithPurgeSequence(revision+1))
}

// dropLeases removes all leases of controllers of a realm.
func dropLeases(ctx context.Context, js jetstream.JetStream, realm string) error {
	return purge(ctx, js, ControllerBucket, bucketSubject(ControllerBucket, realm+".>"))
}

// purge removes messages of the stream of a bucket, if there is one.
func purge(ctx context.Context, js jetstream.JetStream, bucket, subject string, opts ...jetstream.StreamPurgeOpt) error {
	stream, err := js.Stream(ctx, bucketStream(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = stream.Purge(ctx, append(opts, jetstream.WithPurgeSubject(subject))...)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %s: %w", bucket, subject, err)
	}
	return nil
}

// ReadLeases calls visit with the leases of controllers of a realm, ordered by actor and name.
func ReadLeases(ctx context.Context, js jetstream.JetStream, realm string, visit func(actor, name string, e BucketEntry)) error {
	stream, err := js.Stream(ctx, bucketStream(ControllerBucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", ControllerBucket, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(bucketSubject(ControllerBucket, realm+".>")))
	if err != nil {
		return fmt.Errorf("bucket %s: %w", ControllerBucket, err)
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		key := strings.TrimPrefix(subject, bucketSubject(ControllerBucket, ""))
		e, err := ReadKey(ctx, js, ControllerBucket, key)
		if err != nil {
			return err
		}
		parts := strings.SplitN(key, ".", 3)
		if len(parts) == 3 && e.Revision > 0 { // it may have been released meanwhile
			visit(parts[1], parts[2], e)
		}
	}
	return nil
}

// CountKeys returns the number of keys of a bucket whose subjects match a pattern, and of all keys.
func CountKeys(ctx context.Context, js jetstream.JetStream, bucket, pattern string) (matching, keys int, err error) {
	stream, err := js.Stream(ctx, bucketStream(bucket))
	if err != nil {
		return 0, 0, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(pattern))
	if err != nil {
		return 0, 0, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return len(info.State.Subjects), int(info.State.NumSubjects), nil
}
