# Undoes what a note tells of, the last line first, and removes the note. Arguments: the note, and
#   when-told   say "ready" to who is at the other end of standard input, and wait until that end closes
#   now         say what is put back
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

# Of a file that lists all words that it takes, the one in brackets.
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

# Who reads in a tracing instance at this moment, or is ending in a cgroup, is waited for.
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

# Where others use it by now, it is theirs.
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

# The first line tells who wrote the note; one that was not finished told of nothing that was done.
{
    IFS=$tab read -r process pid start boot
    set --
    while IFS= read -r line; do
        set -- "$line" "$@"
    done
} <"$note"

# Settings do not outlive the kernel, and its directories neither.
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
