// Package read has the commands that show objects and what happens to them, and change nothing.
//
// [GetCommand], [DescribeCommand], [TreeCommand], [UsesCommand], [UsedByCommand] and [APIResourcesCommand] show what there
// is; [ExplainCommand] and [EventsCommand] show what has happened and why; [WatchCommand] and [WaitCommand] follow what happens next.
package read
