package docs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Every block of YAML is a manifest that a realm accepts, or the metadata of one; every
// block of JSON is a message.
func TestManifests(t *testing.T) {
	t.Parallel()
	blocks, _, _ := pages(t)
	s := &shell{player: start(t, "", false)}
	n := 0
	for _, b := range blocks {
		switch b.lang {
		case "yaml":
			n++
			if _, fields, _ := strings.Cut(b.text, "\n"); strings.HasPrefix(fields, "version: 1\n") { // a users file
				if _, err := access.Parse("users.yaml", []byte(b.text)); err != nil {
					t.Errorf("%s: %v", b, err)
				}
				continue
			}
			text := b.text
			if !strings.Contains("\n"+text, "\nkind: ") {
				text = "apiVersion: v1\nkind: ConfigMap\n" + text
			}
			s.write(t, "manifest.yaml", text)
			s.forget()
			if s.run(t, "coppice apply --dry-run=server -f manifest.yaml"); s.err != nil || !strings.Contains(s.output(), "dry run") {
				t.Errorf("%s: %v: %s", b, s.err, s.output())
			}
		case "json":
			n++
			if err := checkJSON(b.text); err != nil {
				t.Errorf("%s: %v", b, err)
			}
		}
	}
	if n < 4 {
		t.Errorf("found %d manifests", n)
	}
}

// checkJSON checks a call of a finalizer, an agent or an expiry policy, whose values may be left out.
func checkJSON(text string) error {
	text = strings.ReplaceAll(text, `"01890a5d-…"`, `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	text = strings.ReplaceAll(text, `"…"`, `"2026-01-02T03:04:05Z"`)
	var is map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return err
	}
	switch {
	case is["policy"] != nil:
		return manifest.UnmarshalMessage([]byte(text), &coppicev1.ExpireCall{})
	case is["finalizer"] == nil:
		return manifest.UnmarshalMessage([]byte(text), &coppicev1.TerminateCall{})
	}
	return manifest.UnmarshalMessage([]byte(text), &coppicev1.FinalizeCall{})
}

// A call with a field that does not exist, or with a value that is left out, is refused.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	if err := checkJSON(`{"resource": "pods", "finalizer": "a/b", "object": {"metadata": {"deletionTimestamp": "…"}}}`); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"resources": "pods", "finalizer": "a/b"}`, `{"resource": "pods", "process": "x"}`, `{"resource": 7}`} {
		if checkJSON(bad) == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
