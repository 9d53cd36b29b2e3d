# The process that the caller waits for. It runs what builds the sandbox ("$@"), and ends as the command in there has ended:
# that is told at descriptor 6, as the number of the signal, or 0. The signals by which a caller asks are not for it: the
# command decides on those. It uses no descriptor that a start over SSH gives to the command.
# $1 sockets are covered that still are there, and then come $2 words which follow what covers them.
trap '' HUP INT QUIT TERM
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
exec 7<<_
_
exec 6>/dev/fd/7
"$@" 7<&-
code=$?
exec 6>&-
read -r number <&7 || number=
case $number in
    0) exit "$code" ;;
    '')
        if [ "$code" -le 128 ]; then
            echo "anyshell: the command was not run: its sandbox could not be built (see above)" >&2
            exit 125
        fi
        number=$((code - 128))
        ;;
esac
ulimit -c 0
trap - "$number"
kill -"$number" "$$"
exit "$code"
