// Package s3store implements [archive.Store] in a bucket of Amazon S3, or of a server that is
// compatible with it.
//
// The server must support conditional writes (If-None-Match with PUT), as Amazon S3 and
// versitygw do: archivetest.Run shows whether another server does. An entry is stored by
// one PUT, so that its size is limited to 5 GiB, and no parts of an upload that failed are left.
package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/coppice-gc/coppice/internal/archive"
)

// Store is an archive in a bucket.
type Store struct {
	location archive.Location
	client   *minio.Core
}

var _ archive.Store = (*Store)(nil)

// Open returns the archive at a location of S3, whose bucket must exist. Credentials are in
// the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the
// environment.
func Open(ctx context.Context, l archive.Location) (*Store, error) {
	creds := credentials.NewEnvAWS()
	value, err := creds.GetWithContext(nil)
	if err != nil || value.AccessKeyID == "" {
		return nil, fmt.Errorf("archive %s: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", l)
	}
	scheme, host, _ := strings.Cut(l.Endpoint, "://")
	client, err := minio.NewCore(host, &minio.Options{Creds: creds, Secure: scheme == "https", Region: l.Region})
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", l, err)
	}
	s := &Store{location: l, client: client}
	switch exists, err := client.BucketExists(ctx, l.Bucket); {
	case err != nil:
		return nil, fmt.Errorf("archive %s: %w", l, err)
	case !exists:
		return nil, fmt.Errorf("archive %s: there is no bucket %s: create it", l, l.Bucket)
	}
	return s, nil
}

// String returns the URL of the archive.
func (s *Store) String() string { return s.location.String() }

func (s *Store) key(name string) string { return s.location.Prefix + name }

// wrap names the entry and the store in an error of the server.
func (s *Store) wrap(what, name string, err error) error {
	switch response := minio.ToErrorResponse(err); {
	case response.Code == minio.NoSuchKey:
		err = archive.ErrNotFound
	case response.Code == minio.InvalidRange || response.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		err = archive.ErrRange
	case response.Code == minio.PreconditionFailed:
		err = archive.ErrExists
	}
	return fmt.Errorf("archive %s: %s %s: %w", s, what, name, err)
}

// Put implements archive.Store.
func (s *Store) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	if err := archive.CheckPut(name, size); err != nil {
		return err
	}
	// Without this request all of the content would be sent before the server refuses it.
	_, err := s.client.StatObject(ctx, s.location.Bucket, s.key(name), minio.StatObjectOptions{})
	switch {
	case err == nil:
		return s.wrap("put", name, archive.ErrExists)
	case minio.ToErrorResponse(err).Code != minio.NoSuchKey:
		return s.wrap("put", name, err)
	}
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	options.SetMatchETagExcept("*")
	in := &archive.Content{In: content, Left: size}
	_, err = s.client.Client.PutObject(ctx, s.location.Bucket, s.key(name), in, size, options)
	switch {
	case in.Err != nil:
		return s.wrap("put", name, in.Err)
	case err != nil:
		return s.wrap("put", name, err)
	}
	return nil
}

// Open implements archive.Store.
func (s *Store) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	if offset < 0 || length <= 0 {
		return nil, s.wrap("read", name, archive.ErrRange)
	}
	var options minio.GetObjectOptions
	if err := options.SetRange(offset, offset+length-1); err != nil {
		return nil, s.wrap("read", name, err)
	}
	in, info, header, err := s.client.GetObject(ctx, s.location.Bucket, s.key(name), options)
	if err != nil {
		return nil, s.wrap("read", name, err)
	}
	switch {
	case info.Size < 0:
		err = checkRange(header.Get("Content-Range"), offset, length)
	case info.Size != length:
		err = archive.ErrRange
	}
	if err != nil {
		return nil, errors.Join(s.wrap("read", name, err), in.Close())
	}
	return &body{ReadCloser: in, left: length, wrap: func(err error) error { return s.wrap("read", name, err) }}, nil
}

// checkRange checks the range of a response without a length, which a proxy may have removed.
func checkRange(text string, offset, length int64) error {
	var first, last int64
	if _, err := fmt.Sscanf(text, "bytes %d-%d/", &first, &last); err != nil || first != offset {
		return fmt.Errorf("the response has no length, and the range %q instead of bytes %d-%d", text, offset, offset+length-1)
	}
	if last-first+1 != length {
		return archive.ErrRange
	}
	return nil
}

// body is the body of a response. A connection that ends early must not look like an entry that does: the
// entry would seem damaged.
type body struct {
	io.ReadCloser
	left int64 // bytes
	wrap func(error) error
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left > 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return n, b.wrap(fmt.Errorf("the connection ended %d bytes early", b.left))
	}
	return n, err
}

// List implements archive.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[archive.Entry, error] {
	return func(yield func(archive.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for o := range s.client.ListObjectsIter(ctx, s.location.Bucket, minio.ListObjectsOptions{Prefix: s.key(prefix), Recursive: true}) {
			if o.Err != nil {
				yield(archive.Entry{}, s.wrap("list", prefix, o.Err))
				return
			}
			name := strings.TrimPrefix(o.Key, s.location.Prefix)
			if archive.CheckName(name) == nil && !yield(archive.Entry{Name: name, Size: o.Size}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(archive.Entry{}, s.wrap("list", prefix, err))
		}
	}
}

// Delete implements archive.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	err := s.client.RemoveObject(ctx, s.location.Bucket, s.key(name), minio.RemoveObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return s.wrap("delete", name, err)
	}
	return nil
}
