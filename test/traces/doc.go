// Package traces tests what Coppice's processes export, with the packages of OpenTelemetry's collector: it is a
// module of its own, so that these are no dependencies of Coppice.
package traces
