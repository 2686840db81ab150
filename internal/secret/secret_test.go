package secret_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a", "secret")
	drawn, err := secret.LoadOrDraw(file)
	must.Succeed(t, err)
	info, err := os.Stat(file)
	must.Succeed(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	if err := secret.Save(file, secret.Secrets{}.Draw()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a secret was replaced: %v", err)
	}
	two := drawn.Draw()
	must.Succeed(t, secret.Replace(file, two))
	loaded, err := secret.LoadOrDraw(file)
	must.Succeed(t, err)
	for number := range uint32(4) {
		want, had := two.Key(number, "r", [16]byte{1})
		got, has := loaded.Key(number, "r", [16]byte{1})
		if got != want || has != had || has != (number == 1 || number == 2) {
			t.Errorf("key %d: %t, %t", number, had, has)
		}
	}
	if loaded.Newest() != 2 {
		t.Errorf("the newest is %d", loaded.Newest())
	}
	must.Succeed(t, os.Chmod(file, 0o644))
	if _, err := secret.Load(file); err == nil || !strings.Contains(err.Error(), "must have 0600") {
		t.Errorf("readable by all: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A key depends on the secret, on the realm's name, and on the realm's id.
func TestKey(t *testing.T) {
	t.Parallel()
	s := secret.Secrets{}.Draw().Draw()
	seen := map[secret.Key]bool{}
	for _, from := range []secret.Secrets{s, secret.Secrets{}.Draw()} {
		for _, number := range []uint32{1, 2} {
			for _, realm := range []string{"a", "b"} {
				for _, id := range [][16]byte{{1}, {2}} {
					k, ok := from.Key(number, realm, id)
					if !ok {
						continue
					}
					again, _ := from.Key(number, realm, id)
					if seen[k] || again != k {
						t.Errorf("key %d of realm %s %x is another's, or differs the second time", number, realm, id[:1])
					}
					seen[k] = true
				}
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d keys", len(seen))
	}
	if text := s.String(); strings.Contains(string(s.Format()), text) {
		t.Errorf("String gives away %q", text)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0f", secret.Size)
	if s, err := secret.Parse([]byte("# comment\n\n  1 " + hex + "\n7 " + hex + "  \n")); err != nil || s.Newest() != 7 {
		t.Errorf("%d, %v", s.Newest(), err)
	}
	for name, text := range map[string]string{
		"nothing":       "",
		"comments only": "# none\n",
		"no number":     hex,
		"zero":          "0 " + hex,
		"too short":     "1 " + hex[2:],
		"too long":      "1 " + hex + "00",
		"no hex":        "1 " + strings.Repeat("xy", secret.Size),
		"twice":         "1 " + hex + "\n1 " + hex,
		"descending":    "2 " + hex + "\n1 " + hex,
		"too large":     "4294967296 " + hex,
	} {
		if s, err := secret.Parse([]byte(text)); !errors.Is(err, secret.ErrMalformed) {
			t.Errorf("%s: %v, %v", name, s, err)
		} else if strings.Contains(err.Error(), hex[:8]) {
			t.Errorf("%s: the error gives away a secret: %v", name, err)
		}
	}
}
