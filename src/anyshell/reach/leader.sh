# The process that the caller waits for. It runs what builds the sandbox ("$@"), and ends as the command in there has ended:
# that is told at descriptor 6, as a line when it begins, and then the number of the signal, or 0. The signals by which a caller
# asks are not for it: the command decides on those.
# $1 is where a control group is made for the command, and $2 and $3 are its bytes of memory and its processes at once; each may be
# empty.
# $4 is how often the sandbox is tried to be built: a socket or a mount may vanish meanwhile, and nothing has run then. What is
# said of that is shown for the last time alone; so the command has its standard error at 5. It uses no descriptor that a
# start over SSH gives to the command. $5 sockets are covered that still
# are there, and then come $6 words which follow what covers them.
trap '' HUP INT QUIT TERM
ulimit -c 0
place=$1 memory=$2 processes=$3 tries=$4 group=
shift 4
grouped() {
    for group in "$place"/anyshell-*; do
        leader=${group##*/anyshell-}
        [ -d "/proc/${leader%-*}" ] || rmdir "$group" 2>/dev/null
    done
    group=$(mktemp -d "$place/anyshell-$$-XXXXXX") || return
    [ -z "$processes" ] || printf %s "$processes" >"$group/pids.max" || return
    [ -z "$memory" ] || printf %s "$memory" >"$group/memory.max" || return
    # Otherwise what is above the limit is swapped out.
    [ -z "$memory" ] || [ ! -e "$group/memory.swap.max" ] || printf 0 >"$group/memory.swap.max"
}
ungroup() {
    [ -n "$group" ] || return
    [ -z "$memory" ] || while read -r event count; do
        [ "$event" != oom_kill ] || [ "$count" -eq 0 ] ||
            printf '%s\n' "anyshell: the limit of memory was reached ($memory bytes): the kernel killed processes of the command" >&2
    done <"$group/memory.events"
    # What goes on in the background, or has not quite ended, holds it: then the next leader removes it.
    rmdir "$group" 2>/dev/null
}
if [ -n "$place" ] && ! grouped; then
    printf '%s\n' "anyshell: the command was not run: its limits could not be set by a control group (see above)" >&2
    [ -z "$group" ] || rmdir "$group"
    exit 125
fi
confine() {
    sockets=$1 words=$2
    shift 2
    while [ "$sockets" -gt 0 ]; do
        [ ! -S "$1" ] || set -- "$@" --ro-bind /dev/null "$1"
        shift
        sockets=$((sockets - 1))
    done
    while [ "$words" -gt 0 ]; do
        set -- "$@" "$1"
        shift
        words=$((words - 1))
    done
    if [ -n "$group" ]; then
        (printf 0 >"$group/cgroup.procs" && exec "$@") 5>&2 2>/dev/fd/4 4<&- 7<&-
    else
        "$@" 5>&2 2>/dev/fd/4 4<&- 7<&-
    fi
}
while :; do
    exec 4<<_
_
    exec 7<<_
_
    exec 6>/dev/fd/7
    confine "$@"
    code=$?
    exec 6>&-
    read -r begun <&7 || begun=
    read -r number used <&7 || number= used=
    [ -z "$begun" ] && [ "$code" -le 128 ] || break
    said=$(cat <&4)
    tries=$((tries - 1))
    if [ "$tries" -le 0 ]; then
        ungroup
        printf '%s\n' "$said" "anyshell: the command was not run: its sandbox could not be built (see above)" >&2
        exit 125
    fi
done
ungroup
# A file of the caller's, or over SSH the stderr that nothing else has, which cannot be opened again. The command has neither.
case $used:${ANYSHELL_USED-} in
    :* | *:) ;;
    *:3) printf '%s\n' "$used" >&3 ;;
    *) printf '%s\n' "$used" >"/dev/fd/$ANYSHELL_USED" ;;
esac
case $number in
    0) exit "$code" ;;
    '')
        [ "$code" -gt 128 ] || exit "$code"
        number=$((code - 128))
        ;;
esac
trap - "$number"
kill -"$number" "$$"
exit "$code"
