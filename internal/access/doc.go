// Package access has the users file: who may do what, by verb, kind, namespace and realm.
//
// [Parse] reads the file, and [File.Table] compiles it. The same rules have two uses. [File.Roles] are the permissions
// of NATS, from which the configuration of a server is generated: NATS enforces what the subject of a request
// says. Graph services have the [Table], and enforce it for every request and for what no subject says: the objects in
// replies that are about more than one object, in the log, in warnings and in parked work, and the owners in requests.
package access
