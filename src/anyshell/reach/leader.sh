# The process that the caller waits for. It runs what builds the sandbox ("$@"), and ends as the command in there has ended:
# that is told at descriptor 8, as the number of the signal, or 0. The signals by which a caller asks are not for it: the
# command decides on those.
trap '' HUP INT QUIT TERM
exec 9<<_
_
exec 8>/dev/fd/9
"$@" 9<&-
code=$?
exec 8>&-
read -r number <&9 || number=
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
