// Package archives has the commands about archives of logs: [Command] lists, verifies, copies and prunes them.
package archives
