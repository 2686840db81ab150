package statetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Malformed is not the encoding of a body.
const Malformed = "\xff\xff\xff"

// Malform replaces a value that contains a text, such as the label of one object, in a state that is
// closed.
func Malform(dir, text string) (err error) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	var key []byte
	for it.First(); it.Valid(); it.Next() {
		if bytes.Contains(it.Value(), []byte(text)) {
			key = bytes.Clone(it.Key())
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if key == nil {
		return fmt.Errorf("no value contains %q", text)
	}
	return errors.Join(db.Set(key, []byte(Malformed), nil), db.Flush())
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
