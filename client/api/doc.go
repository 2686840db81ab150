// Package api defines the values that clients and Coppice exchange in addition
// protobuf messages: errors and the kinds of objects.
//
// Package client has every name of this package that programs use; import
// package api only where package client would be too large a dependency.
package api
