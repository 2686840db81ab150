// Package kept spells the warning of a write that has left out external finalizers which the object
// keeps. The graph service writes it, and the SDK reads it.
package kept

import (
	"slices"
	"strings"
)

// A name of a finalizer has neither a space nor a colon.
const (
	keptBegin = "metadata.finalizers: kept "
	keptEnd   = ": an external finalizer is removed only with the permission for the verb removefinalizer and its name"
)

// Unnamed takes the place of a Warning in a reply that has no room for it.
const Unnamed = "metadata.finalizers: kept"

// Warning returns the warning of a write that has left out external finalizers which the object
// keeps.
func Warning(finalizers []string) string {
	return keptBegin + strings.Join(finalizers, ", ") + keptEnd
}

// Finalizers returns the finalizers that a Warning among the warnings names, and the other
// warnings. Without one it returns nil and the warnings.
func Finalizers(warnings []string) (finalizers, others []string) {
	for i, w := range warnings {
		names, found := strings.CutPrefix(w, keptBegin)
		if !found {
			continue
		}
		if names, found = strings.CutSuffix(names, keptEnd); found {
			return strings.Split(names, ", "), slices.Concat(warnings[:i], warnings[i+1:])
		}
	}
	return nil, warnings
}
