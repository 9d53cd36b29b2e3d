# The leader: the process that the caller waits for. The leader runs bubblewrap, which builds the sandbox, and then ends as
# the command in the sandbox ended. The program in the sandbox reports to descriptor 6: one line when the command begins, then
# a line with the number of the signal that ended the command, or 0, and the usage. The leader ignores the signals by which a
# caller asks a command to end: the command decides on these signals.
#
#   leader.sh PLACE MEMORY PROCESSES TRIES SOCKETS WORDS SOCKET... WORD... BUBBLEWRAP ARGUMENT...
#
# PLACE is the directory in which a control group is made for the command. MEMORY (in bytes) and PROCESSES (at once) are the
# limits of the control group. Each of the three may be empty.
# TRIES is the number of attempts to build the sandbox: a socket or a mount may vanish during the build, and then nothing has
# run. Only the messages of the last attempt are shown. So descriptor 4 keeps these messages, and the command's stderr is 5.
# No descriptor of the leader's is one that a start over SSH gives to the command.
# SOCKETS is the number of sockets: each SOCKET that still exists is covered by /dev/null. WORDS is the number of words that
# are moved behind the options which cover the sockets.
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
    # Forbid swap: otherwise the kernel swaps out the memory above the limit.
    [ -z "$memory" ] || [ ! -e "$group/memory.swap.max" ] || printf 0 >"$group/memory.swap.max"
}
ungroup() {
    [ -n "$group" ] || return
    [ -z "$memory" ] || while read -r event count; do
        [ "$event" != oom_kill ] || [ "$count" -eq 0 ] ||
            printf '%s\n' "anyshell: the limit of memory was reached ($memory bytes): the kernel killed processes of the command" >&2
    done <"$group/memory.events"
    # A process in the background, or one that has not quite ended, keeps the group: then the next leader removes the group.
    rmdir "$group" 2>/dev/null
}
if [ -n "$place" ] && ! grouped; then
    printf '%s\n' "anyshell: the command was not run: its limits could not be set by a control group (see above)" >&2
    [ -z "$group" ] || rmdir "$group"
    exit 125
fi
# confine SOCKETS WORDS SOCKET... WORD... BUBBLEWRAP ARGUMENT...: put the sockets' covers and the words at the end, and run that
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
# Try until the command has begun, or a signal has ended bubblewrap. Descriptors 4 and 7 read what goes to bubblewrap's 2 and 6.
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
# Report the usage to the caller's file, or over SSH to descriptor 3: a stderr that nothing else writes to, and that cannot be
# opened again by path. The command has neither of the two descriptors.
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
