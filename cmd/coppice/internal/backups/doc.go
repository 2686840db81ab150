// Package backups has the commands that back up and restore all realms of an installation.
package backups
