// Package doctor has the command coppice doctor, which examines an installation and says what needs attention.
//
// It has three sources, each of which may be missing: the API of the realms, as an operator may use it; the API of
// JetStream, which only users of the core account may use; and the HTTP servers of the services and of the NATS
// servers. What a source that is missing would show is reported as not examined. Each part of an installation has a file:
//
//	nats.go     the NATS servers: versions, limits, whether they sync
//	streams.go  the streams of realms: settings and replicas
//	realms.go   the realms: writer, pending work, finalizers, parked work, brakes, disks, archive
//	services.go the services: readiness, clock, lag, disk
//
// Nothing is changed.
package doctor
