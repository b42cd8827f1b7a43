"""The bench of the schedule: leases, jobs and the feed on a real SQLite file (PERF-8, PERF-9, PERF-10)."""
