# Undoes the changes in a note, the last line first, and removes the note. Arguments: the note, and
#   when-told   print "ready" to the socket on standard input, and wait until its other end is closed
#   now         print each change that is undone
note=$1
when=$2
trap '' INT TERM HUP QUIT PIPE
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
tab=$(printf '\t')
failed=0

say() {
    [ "$when" != now ] || echo "  $1" >&2
}

complain() {
    echo "$1" >&2
    failed=1
}

# The value of a setting; for a file that lists all values, the one in brackets.
value_of() {
    now=$(cat "$1")
    case $now in
    *\[*\]*) now=${now#*\[}; now=${now%%\]*} ;;
    esac
    echo "$now"
}

put_back_setting() {
    [ -e "$1" ] && [ "$(value_of "$1")" != "$2" ] || return
    if printf '%s\n' "$2" >"$1" && [ "$(value_of "$1")" = "$2" ]; then
        say "$1 is $2 again"
    else
        complain "could not set $1 back; write $2 to it"
    fi
}

# Waits for readers of a tracing instance, and kills the processes in a cgroup.
remove_kernel_directory() {
    [ -d "$1" ] || return
    tries=0
    until rmdir "$1" 2>/dev/null; do
        [ -d "$1" ] || return
        [ ! -e "$1/cgroup.procs" ] || kill -KILL $(cat "$1/cgroup.procs") 2>/dev/null
        tries=$((tries + 1))
        if [ $tries = 50 ]; then
            complain "could not remove $1; remove it with rmdir"
            return
        fi
        sleep 0.1
    done
    say "$1 is removed"
}

# If another process uses the mount, it stays.
unmount() {
    ! umount "$1" 2>/dev/null || say "$1 is unmounted"
}

remove() {
    [ -e "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] || return
    if rm -rf -- "$1"; then
        say "$1 is removed"
    else
        complain "could not remove $1"
    fi
}

if [ "$when" = when-told ]; then
    echo ready >&0
    cat >/dev/null
fi

# The first line identifies the process. An incomplete last line was for a change that was not made.
{
    IFS=$tab read -r process pid start boot
    set --
    while IFS= read -r line; do
        set -- "$line" "$@"
    done
} <"$note"

# After a reboot, settings and kernel directories do not have to be undone.
[ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] && same_kernel=1 || same_kernel=0
for line; do
    kind=${line%%"$tab"*}
    rest=${line#*"$tab"}
    path=${rest%%"$tab"*}
    value=${rest#*"$tab"}
    case $same_kernel$kind in
    1setting) put_back_setting "$path" "$value" ;;
    1kernel-directory) remove_kernel_directory "$path" ;;
    1mount) unmount "$path" ;;
    [01]file) remove "$path" ;;
    esac
done

[ $failed = 0 ] && rm -f -- "$note"
exit $failed
