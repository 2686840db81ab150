// Package recordings has the commands about recorded logs: [RecordCommand] writes one to a file, [LogCommand] prints it, sums it up and
// verifies it, and [ReplayCommand] replays it into a realm or a directory, or in memory under other settings.
package recordings
