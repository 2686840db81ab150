// Package oracle asks Kubernetes itself. Its test plays the scripts of
// internal/oracle/testdata against the API server that serves custom resources,
// with an etcd, both in this process and on the loopback device, and compares the
// recordings with its replies:
//
//	go test .            are the recordings what Kubernetes answers?
//	go test . -rewrite   record what it answers ("make oracle")
//
// For the scripts of testdata/collector Kubernetes' garbage collector runs as well.
// It does not report when it is idle; collector_test.go describes how the test finds
// out. It takes about four minutes.
//
// The product does not need Kubernetes for its own tests: they replay the
// recordings. So this is a module of its own, and its dependencies are not the
// product's.
//
// Custom resources have no graceful deletion, and their kinds delete dependents
// by default. What only built-in kinds show cannot be recorded here: the grace
// periods of Pods (C091), kinds that orphan by default, the kind Event that
// takes no part. The scripts of internal/lifecycle have those tables.
package oracle
