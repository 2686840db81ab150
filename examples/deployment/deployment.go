// Package deployment has the manifests of a Deployment and of what depends on
// it, as kubectl prints them, for the demo and for tests.
package deployment

import "embed"

// Files are the manifests, in the order in which their owners come first.
//
//go:embed *.yaml
var Files embed.FS
