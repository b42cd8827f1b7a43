#!/bin/sh
# Run a command with a resource to itself, from a shell script: `sh guarded.sh pair ./bench.sh --quick`.
#
# Waits in the queue for up to WAIT (default 30m) and leases for up to FOR (default 1h). The command sees
# HOSTLER_LEASE and HOSTLER_TRUSTED_UNTIL. When the resource is not to be had, nothing is run and the exit
# status is that of `hostler reserve` (75 held, 124 waited in vain); else it is the command's own, or 73 when
# the resource could not be put back. For work that may outlast FOR use `hostler run`, which renews.
set -eu
resource="${1:?which resource?}"
shift

# In two steps: `eval` of what a program that is not there says would go on without a lease.
lease="$(hostler reserve "$resource" --for "${FOR:-1h}" --wait="${WAIT:-30m}" --reason "$*" --shell)"
eval "$lease"
trap 'hostler release "$HOSTLER_LEASE" >&2 || exit $?' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$@"
