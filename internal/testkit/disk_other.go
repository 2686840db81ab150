//go:build !linux

package testkit

import (
	"errors"
	"testing"
)

func mount(testing.TB, string, string) error { return errors.ErrUnsupported }
