// Package api defines the values that clients and Coppice exchange in addition to
// protobuf messages: errors, kinds of objects and expiry policies.
//
// Package client has aliases for the names that most programs use. Import package api
// for the others, such as [ExpiryPolicy].
package api
