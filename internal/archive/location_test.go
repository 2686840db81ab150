package archive_test

import (
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/archive"
)

func TestLocation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]archive.Location{
		"file:///var/lib/coppice/archive": {Scheme: "file", Dir: "/var/lib/coppice/archive"},
		"file:///a/../b/":                 {Scheme: "file", Dir: "/b"},
		"nats://coppice-archive":          {Scheme: "nats", Bucket: "coppice-archive"},
		"s3://bucket":                     {Scheme: "s3", Bucket: "bucket", Endpoint: archive.DefaultEndpoint},
		"s3://bucket/":                    {Scheme: "s3", Bucket: "bucket", Endpoint: archive.DefaultEndpoint},
		"s3://bucket/a/b/?endpoint=http://127.0.0.1:9000/":          {Scheme: "s3", Bucket: "bucket", Prefix: "a/b/", Endpoint: "http://127.0.0.1:9000"},
		"s3://bucket?endpoint=https%3A%2F%2Fhost&region=eu-north-1": {Scheme: "s3", Bucket: "bucket", Endpoint: "https://host", Region: "eu-north-1"},
	} {
		l, err := archive.ParseLocation(text)
		if err != nil || l != want {
			t.Errorf("%s: %+v, %v; want %+v", text, l, err, want)
		}
		if again, err := archive.ParseLocation(l.String()); err != nil || again != l {
			t.Errorf("%s is written as %s, which is %+v, %v", text, l, again, err)
		}
	}
}

func TestLocationRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "unknown scheme",
		"/var/lib/archive":                    "unknown scheme",
		"gs://bucket":                         `unknown scheme "gs"`,
		"file://var/lib/archive":              "absolute directory",
		"file:///":                            "absolute directory",
		"file:archive":                        "parts that",
		"file:///a?x=y":                       "only s3 has parameters",
		"nats://":                             "name of an object store",
		"nats://a.b":                          "name of an object store",
		"nats://bucket/a":                     "name of an object store",
		"s3:///a":                             "name of a bucket",
		"s3://Bucket":                         "name of a bucket",
		"s3://bucket/../a":                    "its parts consist of",
		"s3://bucket?endpiont=http://h":       `unknown parameter "endpiont"`,
		"s3://bucket?endpoint=host:9000":      "it is https://host",
		"s3://bucket?endpoint=http://h/path":  "it is https://host",
		"s3://bucket?region=a&region=b":       "given 2 times",
		"s3://key:hunter2@bucket":             "no user or password",
		"s3://key:hunter2@bucket:port":        "not a URL",
		"s3://b?endpoint=http://u:hunter2@h/": "name of a bucket",
		"s3://bucket?endpoint=http://u:hunter2@h/": "it is https://host",
	} {
		_, err := archive.ParseLocation(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	n := archive.Name{Realm: [16]byte{0xab, 15: 1}, Kind: archive.Segment, First: 5, Last: 1234567}
	const text = "ab000000000000000000000000000001/segment/00000000000000000005-00000000000001234567"
	if n.String() != text || archive.CheckName(text) != nil {
		t.Errorf("%s, want %s", n, text)
	}
	if got, ok := archive.ParseName(text); !ok || got != n {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, other := range []string{
		"", "a", strings.ToUpper(text), text + "-1", text + "/1", strings.Replace(text, "segment", "snapshot", 1), text[1:], text[2:],
		strings.Replace(text, "/00", "/0", 1), strings.Replace(text, "00005-", "00000-", 1), strings.Replace(text, "00005-", "+0005-", 1),
		"ab000000000000000000000000000001/segment/00000000000000000005-00000000000000000004",
	} {
		if got, ok := archive.ParseName(other); ok {
			t.Errorf("%q is read as %+v", other, got)
		}
	}
}
