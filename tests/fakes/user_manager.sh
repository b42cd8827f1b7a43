# A systemd user manager with its bus and its journal, in namespaces of its own; ends when its input does.
#
#     RUNTIME=/tmp/d GROUP=name unshare --mount sh user_manager.sh
#
# RUNTIME is where clients find it (XDG_RUNTIME_DIR), GROUP the control group that all of it lives in. Process
# ids are the machine's own: only mounts and control groups are not, and /run with the journal is to be had below
# /proc/<pid of the manager>/root. `$RUNTIME/pids` names the manager, the bus and the journal once all are there.
set -eu

if [ "${1:-}" != inside ]; then
    mount -t tmpfs tmpfs /run
    mkdir -p /run/systemd/system /run/systemd/journald.conf.d /run/log/journal "$RUNTIME/home"
    printf '[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\nRateLimitBurst=0\n' \
        >/run/systemd/journald.conf.d/test.conf
    # Of a machine with both hierarchies only the new one is shown, as on one where systemd began with it.
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir "/sys/fs/cgroup/$GROUP"
    code=0
    sh -c 'echo $$ >"/sys/fs/cgroup/$GROUP/cgroup.procs"; exec unshare --mount --cgroup sh "$0" inside' "$0" || code=$?
    find "/sys/fs/cgroup/$GROUP" -depth -type d -exec rmdir {} +
    exit "$code"
fi

umount /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export XDG_RUNTIME_DIR="$RUNTIME" HOME="$RUNTIME/home" DBUS_SESSION_BUS_ADDRESS="unix:path=$RUNTIME/bus"
# Where systemd puts a user's manager: by this path the journal knows whose unit a line is of.
slice=/sys/fs/cgroup/user.slice/user-0.slice/user@0.service
mkdir -p "$slice"

dbus-daemon --session --address="$DBUS_SESSION_BUS_ADDRESS" --nofork --nopidfile </dev/null &
bus=$!
/lib/systemd/systemd-journald </dev/null &
journal=$!
until [ -S "$RUNTIME/bus" ] && [ -S /run/systemd/journal/stdout ]; do sleep 0.02; done
sh -c 'echo $$ >"$0/cgroup.procs"; exec /lib/systemd/systemd --user' "$slice" </dev/null &
manager=$!
until [ -S "$RUNTIME/systemd/private" ]; do kill -0 "$manager"; sleep 0.02; done
echo "$manager $bus $journal" >"$RUNTIME/pids.part"
mv "$RUNTIME/pids.part" "$RUNTIME/pids"

cat >/dev/null
kill "$manager" && wait "$manager" || true
kill "$bus" "$journal" && wait || true
