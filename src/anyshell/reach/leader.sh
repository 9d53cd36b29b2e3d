# The process that the caller waits for. It runs what builds the sandbox ("$@"), and ends as the command in there has ended:
# that is told at descriptor 6, as a line when it begins, and then the number of the signal, or 0. The signals by which a caller
# asks are not for it: the command decides on those.
# $1 is how often the sandbox is tried to be built: a socket or a mount may vanish meanwhile, and nothing has run then. What is
# said of that is shown for the last time alone; so the command has its standard error at 5. It uses no descriptor that a
# start over SSH gives to the command. $2 sockets are covered that still
# are there, and then come $3 words which follow what covers them.
trap '' HUP INT QUIT TERM
tries=$1
shift
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
    "$@" 5>&2 2>/dev/fd/4 4<&- 7<&-
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
    read -r number <&7 || number=
    [ -z "$begun" ] && [ "$code" -le 128 ] || break
    said=$(cat <&4)
    tries=$((tries - 1))
    if [ "$tries" -le 0 ]; then
        printf '%s\n' "$said" "anyshell: the command was not run: its sandbox could not be built (see above)" >&2
        exit 125
    fi
done
case $number in
    0) exit "$code" ;;
    '')
        [ "$code" -gt 128 ] || exit "$code"
        number=$((code - 128))
        ;;
esac
ulimit -c 0
trap - "$number"
kill -"$number" "$$"
exit "$code"
