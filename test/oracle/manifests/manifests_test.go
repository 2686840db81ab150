// Package manifests_test compares the reading of files of manifests with kubectl's. It can be
// built without an API server.
package manifests_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const draws = 20_000

// The intended differences, which docs/commands.md describes.
var (
	// refusedHere are errors of Coppice for files that kubectl reads. kubectl would lose
	// something, or its server refuses it.
	refusedHere = regexp.MustCompile(strings.Join([]string{
		`is there already`,                // a member twice: kubectl takes the last one
		`stands next to metadata`,         // kubectl leaves it to the server, which knows the members of a kind
		`items\[\d+\]: not an object`,     // kubectl takes an item that is null for an empty object
		`a List has items`,                // kubectl looks for a kind with the name List
		`metadata\.[^ ]*: |unknown field`, // kubectl leaves it to the server, or drops it
		`NO-BREAK SPACE in column`,        // kubectl takes it for text
		`not UTF-8`,                       // kubectl replaces what it cannot read
		`invalid JSON`,                    // kubectl ignores what follows the end of a document
		`apiVersion is missing`,           // kubectl leaves it to the server
		`expected <document start>`,       // kubectl ignores what follows the end of a document
		`the tag !\S+ has no meaning`,     // kubectl ignores the tag
	}, "|"))
	// refusedThere are errors of kubectl for files that Coppice reads.
	refusedThere = regexp.MustCompile(strings.Join([]string{
		`error parsing \S+: invalid character`,                                       // several documents of JSON, then --- or YAML
		`found unknown escape character|found invalid Unicode character escape code`, // escapes of JSON after a document of YAML
		`json: offset \d+: invalid character '-' in numeric literal`,                 // the same, if the first document is JSON
		`is not a list: no Items field`,                                              // a list in a list
	}, "|"))
	// readDifferently are texts of which kubectl would change or lose something.
	readDifferently = regexp.MustCompile(`(?m)` + strings.Join([]string{
		`(^|[-{ ])(yes|on|true|1\.0|0x1f|~|null):`, // it changes the names of members, or refuses them
		`<<: [*{]`,       // it lets a later merge replace a member
		`(?s:.)\x{feff}`, // it does not know byte order marks within a file in every place
	}, "|"))
)

// kubectl reads a file as kubectl does.
func kubectl(path string) (objects []any, err error) {
	infos, err := resource.NewLocalBuilder().Unstructured().ContinueOnError().
		FilenameParam(false, &resource.FilenameOptions{Filenames: []string{path}}).Flatten().Do().Infos()
	for _, info := range infos {
		raw, fail := json.Marshal(info.Object)
		if fail != nil {
			return nil, fail
		}
		o, fail := manifest.FromJSON(raw)
		if fail != nil {
			return nil, fail
		}
		objects = append(objects, generic(o))
	}
	return objects, err
}

// coppice reads a file as Coppice does.
func coppice(path string, data []byte) (objects []any, err error) {
	entries, err := manifestfile.Read(path, data)
	for _, e := range entries {
		if e.Err != nil {
			return nil, e.Err
		}
		objects = append(objects, generic(e.Object))
	}
	return objects, err
}

// generic returns an object with the numbers as kubectl has them.
func generic(o *coppicev1.Object) (v any) {
	raw, err := manifest.ToJSON(o)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		panic(err) // it was JSON
	}
	return v
}

// hasItems reports whether an object has items of its own: kubectl takes it for a list, or a list
// in a list without items for an object.
func hasItems(objects []any) bool {
	return slices.ContainsFunc(objects, func(o any) bool {
		_, ok := o.(map[string]any)["items"]
		return ok
	})
}

// Drawn files have the same objects as for kubectl, or both refuse them.
func TestManifests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "drawn")
	same, intended, refused, different, shortest := 0, 0, 0, 0, ""
	for range draws {
		drawn := draw(r)
		if err := os.WriteFile(path, drawn.data, 0o600); err != nil {
			t.Fatal(err)
		}
		theirs, failed := kubectl(path)
		ours, err := coppice(path, drawn.data)
		switch {
		case err != nil && failed != nil:
			refused++
		case err == nil && failed == nil && reflect.DeepEqual(ours, theirs):
			same++
		case err != nil && refusedHere.MatchString(err.Error()),
			failed != nil && refusedThere.MatchString(failed.Error()),
			readDifferently.MatchString(drawn.text),
			drawn.joined, // kubectl ignores what follows the end of a document
			hasItems(ours), hasItems(theirs):
			intended++
		default:
			different++
			if text := fmt.Sprintf("%q\nis read as\n%v, %v\nby kubectl as\n%v, %v", drawn.text, ours, err, theirs, failed); shortest == "" || len(text) < len(shortest) {
				shortest = text
			}
		}
	}
	if different > 0 {
		t.Errorf("%d files differ; the shortest is %s", different, shortest)
	}
	t.Logf("%d files are equal, %d are refused by both, %d differ as intended", same, refused, intended)
	if same < draws/4 || refused < draws/100 || intended < draws/100 {
		t.Error("the generator draws too few files of a kind")
	}
}
