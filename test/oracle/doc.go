// Package oracle compares the recordings of internal/oracle/testdata with Kubernetes. Its
// tests play the scripts against the API server for custom resources and an etcd, both in
// this process and on the loopback device:
//
//	go test .            are the recordings what Kubernetes answers?
//	go test . -rewrite   record what it answers ("make oracle")
//
// Package kubectl does the same for testdata/apply and testdata/commands, with kubectl and the
// API server for all kinds.
//
// For the scripts of testdata/collector Kubernetes' garbage collector runs as well. It does
// not report when it is idle; collector_test.go describes how the tests detect it. They
// take about four minutes.
//
// Coppice's own tests replay the recordings and do not need Kubernetes. So this is a
// separate module, and its dependencies are not those of Coppice.
//
// Custom resources have no graceful deletion, and their dependents are deleted by default.
// The behaviour of built-in kinds cannot be recorded here: grace periods of Pods (C091),
// kinds that orphan by default, and the kind Event, which the collector ignores. The
// scripts of internal/lifecycle have tables of these.
package oracle
