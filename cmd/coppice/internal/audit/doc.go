// Package audit has the command that writes what a log says about who changed what, for programs.
package audit
