package main

// pages are the dashboards. $namespace and $realm are regular expressions of what a reader has chosen.
var pages = []page{
	{
		name: "overview", title: "Coppice", about: "All realms and services: is anything wrong, and where.",
		metric: "coppice_graph_phase", variables: []string{"namespace"},
		rows: []row{
			{"Now", []panel{
				{title: "Realms without a writer", about: "Commands of these realms fail.", now: true, bad: 1, lines: []line{
					{"", `count(max by (namespace, realm) (coppice_graph_phase{namespace=~"$namespace", phase="writer"}) == 0) or vector(0)`}}},
				{title: "Objects terminating for more than an hour", about: "Types of pending work in realms whose oldest row is that old.", now: true, bad: 1, lines: []line{
					{"", `count(coppice_graph_pending_oldest_seconds{namespace=~"$namespace", type=~"finalize|terminate|blocked|drain|protected"} > 3600) or vector(0)`}}},
				{title: "Parked messages", about: "Work that failed too often: see 'coppice parked'.", now: true, bad: 1, lines: []line{
					{"", `sum(coppice_graph_parked_messages{namespace=~"$namespace"})`}}},
				{title: "Tripped brakes", about: "Kinds of which the collector deletes nothing until the brake is released.", now: true, bad: 1, lines: []line{
					{"", `sum(coppice_graph_brakes_tripped{namespace=~"$namespace"})`}}},
			}},
			{"Load", []panel{
				{title: "Events", about: "Changes of objects that are committed, in a second.", unit: "ops", lines: []line{
					{"{{realm}}", `sum by (realm) (rate(coppice_graph_events_total{namespace=~"$namespace"}[$__rate_interval]))`}}},
				{title: "Time of an append", about: "Until a commit is on the disks of the NATS servers.", unit: "s", lines: []line{
					{"p50", `histogram_quantile(0.5, sum by (le) (rate(coppice_graph_commit_seconds_bucket{namespace=~"$namespace", stage="append"}[$__rate_interval])))`},
					{"p99", `histogram_quantile(0.99, sum by (le) (rate(coppice_graph_commit_seconds_bucket{namespace=~"$namespace", stage="append"}[$__rate_interval])))`}}},
				{title: "Requests in the writer's queue", about: "A writer refuses further requests at a limit.", unit: "short", lines: []line{
					{"{{realm}}", `sum by (realm) (coppice_graph_queue_requests{namespace=~"$namespace"})`}}},
				{title: "Requests not decided", about: "refused: too many; expired: the client no longer waits; repeated: the same command has no outcome yet.", unit: "ops", lines: []line{
					{"{{reason}}", `sum by (reason) (rate(coppice_graph_queue_undecided_total{namespace=~"$namespace"}[$__rate_interval]))`}}},
			}},
			{"Work", []panel{
				{title: "Pending work", about: "Rows of all realms, by type.", unit: "short", lines: []line{
					{"{{type}}", `sum by (type) (coppice_graph_pending_rows{namespace=~"$namespace"})`}}},
				{title: "Oldest pending work", about: "The oldest row of all realms, by type.", unit: "s", lines: []line{
					{"{{type}}", `max by (type) (coppice_graph_pending_oldest_seconds{namespace=~"$namespace"})`}}},
				{title: "Messages of processors and finalizers services", about: "By outcome.", unit: "ops", lines: []line{
					{"processor {{outcome}}", `sum by (outcome) (rate(coppice_processor_messages_total{namespace=~"$namespace"}[$__rate_interval]))`},
					{"finalizers {{outcome}}", `sum by (outcome) (rate(coppice_finalizers_messages_total{namespace=~"$namespace"}[$__rate_interval]))`}}},
				{title: "Time since the last scan", about: "Of each realm.", unit: "s", lines: []line{
					{"{{realm}}", `time() - min by (realm) (coppice_scanner_last_walk_timestamp_seconds{namespace=~"$namespace"} > 0)`}}},
			}},
			{"Processes", []panel{
				{title: "CPU", about: "Cores of each process.", unit: "short", lines: []line{
					{"{{instance}}", `rate(process_cpu_seconds_total{namespace=~"$namespace"}[$__rate_interval]) and on (instance) coppice_build_info`}}},
				{title: "Memory", about: "Resident memory of each process.", unit: "bytes", lines: []line{
					{"{{instance}}", `process_resident_memory_bytes{namespace=~"$namespace"} and on (instance) coppice_build_info`}}},
				{title: "Free space on the disks of the states", about: "A graph service stops when its disk is full.", unit: "percentunit", lines: []line{
					{"{{instance}}", `coppice_graph_disk_free_bytes{namespace=~"$namespace"} / coppice_graph_disk_bytes`}}},
				{title: "Clocks", about: "How far the clock of each graph service is ahead of that of the NATS server.", unit: "s", lines: []line{
					{"{{instance}}", `coppice_graph_clock_ahead_seconds{namespace=~"$namespace"}`}}},
			}},
		},
	},
	{
		name: "realm", title: "Coppice: realm", about: "One realm: who writes it, what waits, what its storage takes.",
		metric: "coppice_graph_phase", variables: []string{"namespace", "realm"},
		rows: []row{
			{"Services", []panel{
				{title: "Phase", about: "1 for the phase of each graph service.", unit: "short", lines: []line{
					{"{{instance}} {{phase}}", `coppice_graph_phase{namespace=~"$namespace", realm=~"$realm"} == 1`}}},
				{title: "Events that a replica is behind", about: "The newest revision that a graph service has applied, less that of each.", unit: "short", lines: []line{
					{"{{instance}}", `max by (namespace, realm) (coppice_graph_revision{state="applied"}) - on (namespace, realm) group_right () max by (namespace, instance, realm) (coppice_graph_revision{namespace=~"$namespace", realm=~"$realm", state="applied"})`}}},
				{title: "Failures of the realm", about: "Each is retried; /readyz and the log have the reason.", unit: "short", bad: 1, lines: []line{
					{"{{instance}}", `increase(coppice_graph_realm_failures_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval])`}}},
			}},
			{"External finalizers", []panel{
				{title: "Objects that wait", about: "By finalizer.", unit: "short", lines: []line{
					{"{{finalizer}}", `sum by (finalizer) (coppice_graph_finalizer_objects{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Longest wait", about: "Of the first object, by finalizer.", unit: "s", lines: []line{
					{"{{finalizer}}", `max by (finalizer) (coppice_graph_finalizer_oldest_seconds{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Attempts", about: "Calls that are done, that failed, and that programs handed back.", unit: "ops", lines: []line{
					{"{{finalizer}} {{outcome}}", `sum by (finalizer, outcome) (rate(coppice_graph_finalizer_attempts_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Consumers", about: "1 for the state of each finalizer's program.", unit: "short", lines: []line{
					{"{{finalizer}} {{state}}", `max by (finalizer, state) (coppice_graph_finalizer_consumer{namespace=~"$namespace", realm=~"$realm"}) == 1`}}},
			}},
			{"Storage", []panel{
				{title: "Log", about: "The size of its stream, and the size at which it is cut.", unit: "bytes", lines: []line{
					{"size", `max by (realm) (coppice_graph_log_bytes{namespace=~"$namespace", realm=~"$realm"})`},
					{"is cut at", `max by (realm) (coppice_graph_log_cut_at_bytes{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "State", about: "On the disk of each graph service.", unit: "bytes", lines: []line{
					{"{{instance}}", `coppice_graph_state_bytes{namespace=~"$namespace", realm=~"$realm"}`}}},
				{title: "Archive", about: "The size of its entries.", unit: "bytes", lines: []line{
					{"{{realm}}", `max by (realm) (coppice_graph_archive_bytes{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Events not in the archive", about: "Since the last segment, and since the last verified snapshot.", unit: "short", lines: []line{
					{"{{entry}}", `max by (namespace, realm) (coppice_graph_revision{state="applied"}) - on (namespace, realm) group_right () max by (namespace, realm, entry) (coppice_graph_archived_revision{namespace=~"$namespace", realm=~"$realm"})`}}},
			}},
			{"Must be zero", []panel{
				{title: "Damaged messages of the log", about: "Missing, or not readable.", unit: "short", bad: 1, now: true, lines: []line{
					{"", `max(coppice_graph_log_damaged_messages{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Skipped messages of the log", about: "Not written by a graph service.", unit: "short", bad: 1, now: true, lines: []line{
					{"", `sum(increase(coppice_graph_log_skipped_total{namespace=~"$namespace", realm=~"$realm"}[$__range]))`}}},
				{title: "Failures of the archive", about: "Each is retried.", unit: "short", bad: 1, now: true, lines: []line{
					{"", `sum(increase(coppice_graph_archive_failures_total{namespace=~"$namespace", realm=~"$realm"}[$__range]))`}}},
				{title: "Rebuilds of the state", about: "The state was damaged.", unit: "short", bad: 1, now: true, lines: []line{
					{"", `sum(increase(coppice_graph_state_rebuilds_total{namespace=~"$namespace", realm=~"$realm"}[$__range]))`}}},
			}},
		},
	},
	{
		name: "cascade", title: "Coppice: cascade", about: "A cascade while it runs: how fast objects go, and which part is slow.",
		metric: "coppice_graph_phase", variables: []string{"namespace", "realm"},
		rows: []row{
			{"Objects", []panel{
				{title: "What the collector does", about: "Objects in a second: collected, stripped of references, orphaned, drained, finished.", unit: "ops", lines: []line{
					{"{{action}}", `sum by (action) (rate(coppice_graph_collected_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Pending work of the cascade", about: "Rows, by type. They fall to zero.", unit: "short", lines: []line{
					{"{{type}}", `sum by (type) (coppice_graph_pending_rows{namespace=~"$namespace", realm=~"$realm", type=~"evaluate|orphan|finish|examine|finalize|blocked"})`}}},
			}},
			{"Writer", []panel{
				{title: "Commits", about: "In a second.", unit: "ops", lines: []line{
					{"{{realm}}", `sum by (realm) (rate(coppice_graph_commits_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Time of a commit", about: "The mean, by stage: append is the disk, decide and apply are CPU.", unit: "s", lines: []line{
					{"{{stage}}", `sum by (stage) (rate(coppice_graph_commit_seconds_sum{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval])) / sum by (stage) (rate(coppice_graph_commit_seconds_count{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Size of a commit", about: "The mean.", unit: "bytes", lines: []line{
					{"{{realm}}", `sum by (realm) (rate(coppice_graph_commit_bytes_sum{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval])) / sum by (realm) (rate(coppice_graph_commit_bytes_count{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Requests in a commit", about: "The mean. Many requests share the sync of one commit.", unit: "short", lines: []line{
					{"{{realm}}", `sum by (realm) (rate(coppice_graph_commit_requests_sum{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval])) / sum by (realm) (rate(coppice_graph_commit_requests_count{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
			}},
			{"Processors and finalizers services", []panel{
				{title: "Messages that wait or are processed", about: "dirty by processors, the others by finalizers services.", unit: "short", lines: []line{
					{"{{queue}}", `sum by (queue) (coppice_graph_work_messages{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Time of a message", about: "The mean, by queue.", unit: "s", lines: []line{
					{"processor {{queue}}", `sum by (queue) (rate(coppice_processor_message_seconds_sum{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval])) / sum by (queue) (rate(coppice_processor_message_seconds_count{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`},
					{"finalizers {{queue}}", `sum by (queue) (rate(coppice_finalizers_message_seconds_sum{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval])) / sum by (queue) (rate(coppice_finalizers_message_seconds_count{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Repeated deliveries", about: "Messages that were delivered before.", unit: "ops", lines: []line{
					{"processor", `sum(rate(coppice_processor_redeliveries_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`},
					{"finalizers", `sum(rate(coppice_finalizers_redeliveries_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
				{title: "Proposals refused", about: "They were out of date; a few are normal.", unit: "ops", lines: []line{
					{"{{realm}}", `sum by (realm) (rate(coppice_graph_proposals_refused_total{namespace=~"$namespace", realm=~"$realm"}[$__rate_interval]))`}}},
			}},
		},
	},
	{
		name: "nats", title: "Coppice: NATS", about: "NATS as the services of Coppice see it. For the servers themselves use a dashboard of NATS' exporter.",
		metric: "coppice_graph_phase", variables: []string{"namespace", "realm"},
		rows: []row{
			{"Connections", []panel{
				{title: "Connections that are interrupted", about: "They are made again until NATS answers.", now: true, bad: 1, lines: []line{
					{"", `count(coppice_nats_connected{namespace=~"$namespace"} == 0) or vector(0)`}}},
				{title: "Logs without all replicas", about: "A NATS server is missing, or behind. If another one fails, realms cannot be written.", now: true, bad: 1, lines: []line{
					{"", `count(max by (namespace, realm) (coppice_graph_log_replicas{namespace=~"$namespace", state="current"}) < max by (namespace, realm) (coppice_graph_log_replicas{state="configured"})) or vector(0)`}}},
			}},
			{"Traffic", []panel{
				{title: "Messages", about: "Received (in) and sent (out) by services, by user.", unit: "ops", lines: []line{
					{"{{user}} {{direction}}", `sum by (user, direction) (rate(coppice_nats_messages_total{namespace=~"$namespace"}[$__rate_interval]))`}}},
				{title: "Bytes", about: "Received (in) and sent (out) by services, by user.", unit: "Bps", lines: []line{
					{"{{user}} {{direction}}", `sum by (user, direction) (rate(coppice_nats_bytes_total{namespace=~"$namespace"}[$__rate_interval]))`}}},
				{title: "Connections made again", about: "By user.", unit: "short", lines: []line{
					{"{{user}}", `sum by (user) (increase(coppice_nats_reconnects_total{namespace=~"$namespace"}[$__rate_interval]))`}}},
				{title: "Time of an append", about: "From the request to NATS until it acknowledges that the commit is on disk.", unit: "s", lines: []line{
					{"p50 {{realm}}", `histogram_quantile(0.5, sum by (le, realm) (rate(coppice_graph_commit_seconds_bucket{namespace=~"$namespace", realm=~"$realm", stage="append"}[$__rate_interval])))`},
					{"p99 {{realm}}", `histogram_quantile(0.99, sum by (le, realm) (rate(coppice_graph_commit_seconds_bucket{namespace=~"$namespace", realm=~"$realm", stage="append"}[$__rate_interval])))`}}},
			}},
			{"Streams", []panel{
				{title: "Size of the logs", about: "They grow until they are cut.", unit: "bytes", lines: []line{
					{"{{realm}}", `max by (realm) (coppice_graph_log_bytes{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Time since a log was cut", about: "Of realms with an archive.", unit: "s", lines: []line{
					{"{{realm}}", `time() - max by (realm) (coppice_graph_log_cut_timestamp_seconds{namespace=~"$namespace", realm=~"$realm"} > 0)`}}},
				{title: "Messages of work", about: "That wait or are processed, by queue.", unit: "short", lines: []line{
					{"{{realm}} {{queue}}", `sum by (realm, queue) (coppice_graph_work_messages{namespace=~"$namespace", realm=~"$realm"})`}}},
				{title: "Replicas of the logs", about: "NATS servers that should have a log, and that have all of its messages.", unit: "short", lines: []line{
					{"{{realm}} {{state}}", `max by (realm, state) (coppice_graph_log_replicas{namespace=~"$namespace", realm=~"$realm"})`}}},
			}},
		},
	},
}
