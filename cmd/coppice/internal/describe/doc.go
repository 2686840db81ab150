// Package describe writes the details of an object, as `coppice describe` shows them: its
// metadata, owners, dependents and finalizers, the warnings about it and its last events.
package describe
