package archive

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Location is where an archive is: a parsed URL.
type Location struct {
	Scheme string // "file", "nats" or "s3"
	Dir    string // of file
	Bucket string // of nats and s3
	// Prefix is that of the keys in an s3 bucket: empty, or ending with "/".
	Prefix string
	// Endpoint is the URL of the S3 server, https://s3.amazonaws.com by default.
	Endpoint string
	Region   string // of S3; empty to ask the server
}

// DefaultEndpoint is the S3 server of a URL that names none.
const DefaultEndpoint = "https://s3.amazonaws.com"

// Names of buckets. The name of an S3 bucket may have dots. As a host name it would not match the
// TLS certificate of the server, so the client puts such a name into the path of the URL.
var (
	s3Bucket   = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	natsBucket = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)
)

// InDirectory returns the location of an archive in a directory.
func InDirectory(dir string) (Location, error) {
	dir, err := filepath.Abs(dir)
	return Location{Scheme: "file", Dir: dir}, err
}

// ParseLocation parses the URL of an archive:
//
//	file:///dir
//	nats://bucket
//	s3://bucket/prefix?endpoint=https://host:port&region=name
//
// Credentials are never in a URL: they are in the environment. Unknown parameters are errors.
func ParseLocation(text string) (l Location, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("archive: %w; it is file:///dir, nats://bucket, or s3://bucket/prefix?endpoint=URL", err)
		}
	}()
	u, err := url.Parse(text)
	if err != nil {
		var cause *url.Error
		if errors.As(err, &cause) { // without the text, which may contain a password
			err = cause.Err
		}
		return l, fmt.Errorf("not a URL: %w", err)
	}
	switch {
	case u.User != nil:
		return l, errors.New("a URL of an archive has no user or password: credentials are read from the environment")
	case u.Fragment != "" || u.Opaque != "":
		return l, errors.New("it has parts that the URL of an archive does not have")
	case u.Scheme != "s3" && u.RawQuery != "":
		return l, fmt.Errorf("%s: only s3 has parameters", u.Scheme)
	}
	l.Scheme = u.Scheme
	switch u.Scheme {
	case "file":
		l.Dir = path.Clean(u.Path)
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") || l.Dir == "/" {
			return l, fmt.Errorf("%s: it does not name an absolute directory: write file:///dir", u)
		}
	case "nats":
		l.Bucket = u.Host
		if !natsBucket.MatchString(u.Host) || strings.Trim(u.Path, "/") != "" {
			return l, fmt.Errorf("%s: nats:// is followed by the name of an object store, of letters, digits, '_' and '-'", u)
		}
	case "s3":
		return l, l.parseS3(u)
	default:
		return l, fmt.Errorf("unknown scheme %q", u.Scheme)
	}
	return l, nil
}

func (l *Location) parseS3(u *url.URL) error {
	l.Bucket, l.Endpoint = u.Host, DefaultEndpoint
	if !s3Bucket.MatchString(u.Host) {
		return fmt.Errorf("%q cannot be the name of a bucket", u.Host)
	}
	if l.Prefix = strings.Trim(u.Path, "/"); l.Prefix != "" {
		if err := CheckName(l.Prefix); err != nil {
			return err
		}
		l.Prefix += "/"
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	for name, values := range parameters {
		if len(values) != 1 {
			return fmt.Errorf("bucket %s: the parameter %s is given %d times", u.Host, name, len(values))
		}
		switch name {
		case "endpoint":
			l.Endpoint = values[0]
		case "region":
			l.Region = values[0]
		default:
			return fmt.Errorf("bucket %s: unknown parameter %q; s3 has endpoint and region", u.Host, name)
		}
	}
	e, err := url.Parse(l.Endpoint)
	if err != nil || e.Scheme != "https" && e.Scheme != "http" || e.Host == "" || e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" {
		return fmt.Errorf("endpoint of bucket %s: it is https://host or http://host, with a port if necessary", l.Bucket)
	}
	l.Endpoint = e.Scheme + "://" + e.Host
	return nil
}

// String returns the URL.
func (l Location) String() string {
	u := url.URL{Scheme: l.Scheme, Host: l.Bucket}
	switch l.Scheme {
	case "file":
		u.Path = l.Dir
	case "s3":
		u.Path = strings.TrimSuffix("/"+l.Prefix, "/")
		q := url.Values{}
		if l.Endpoint != DefaultEndpoint {
			q.Set("endpoint", l.Endpoint)
		}
		if l.Region != "" {
			q.Set("region", l.Region)
		}
		u.RawQuery = q.Encode()
	}
	return u.String()
}
