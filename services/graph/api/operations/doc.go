// Package operations handles the requests of the other services: processors, finalizers and scanners. [Writer] has
// what they ask the writer to do, and [Replica] what they read before. Package expiry has the operation that
// evaluates expiry policies, and package realms the one that lists realms.
package operations
