# Start a job that outlives anyshell, say how that went in one line ("started PID TIME JOB" or "error WORDS"), and end.
#
#   start.sh TEXT DIRECTORY ID MOST SCRIPT REQUEST PROGRAM ARGUMENT...
#
# TEXT is that of the next two shells, job.sh; DIRECTORY holds the jobs, and is the user's own if empty.
# SCRIPT is 1 if $ANYSHELL_SCRIPT is of our making, and REQUEST one line that is kept as it is.
# Every name here begins with ANYSHELL_JOB_: the caller's variables are there too, and must reach the job as they are.

# shellcheck shell=sh disable=SC2010,SC2012,SC2015,SC2016,SC2030,SC2031,SC2094

# A process that carries a mark is stopped with a command. A job is not, nor with the job that it was started from. First of all,
# since what has one of the names below would become part of the job's environment.
for ANYSHELL_JOB_mark in $(
    PATH=$PATH:/usr/bin:/bin
    env | sed -n -e 's/^\(ANYSHELL_MARK_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(ANYSHELL_REMOTE_[A-Za-z0-9_]*\)=.*/\1/p' \
        -e 's/^\(ANYSHELL_JOB_[A-Za-z0-9_]*\)=.*/\1/p'
); do
    unset "$ANYSHELL_JOB_mark"
done

ANYSHELL_JOB_text=$1 ANYSHELL_JOB_all=$2 ANYSHELL_JOB_id=$3 ANYSHELL_JOB_most=$4
ANYSHELL_JOB_script=$5 ANYSHELL_JOB_request=$6
shift 6
ANYSHELL_JOB_umask=$(umask)
umask 077
ANYSHELL_JOB_path=$PATH
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin

# anyshell_fail WORDS [SAID]: behind the last colon of what a program has said stands the reason.
anyshell_fail() {
    [ "$ANYSHELL_JOB_place" ] && rm -rf "$ANYSHELL_JOB_place"
    printf 'error %s%s\n' "$1" "${2:+: ${2##*: }}"
    exit 1
}

ANYSHELL_JOB_place=
[ "$ANYSHELL_JOB_all" ] ||
    ANYSHELL_JOB_all=${ANYSHELL_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/anyshell}/jobs
case $ANYSHELL_JOB_all in
*'
'*) anyshell_fail 'the directory of jobs has a line feed in its name' ;;
/*) ;;
*) anyshell_fail "$ANYSHELL_JOB_all is no absolute path" ;;
esac
ANYSHELL_JOB_said=$(mkdir -p "$ANYSHELL_JOB_all" 2>&1)
[ -d "$ANYSHELL_JOB_all" ] || anyshell_fail "$ANYSHELL_JOB_all cannot be made" "$ANYSHELL_JOB_said"
# What lies in another user's directory need not be what was put there.
[ ! -L "$ANYSHELL_JOB_all" ] && [ -O "$ANYSHELL_JOB_all" ] ||
    anyshell_fail "$ANYSHELL_JOB_all is a link, or another user's"
case $(ls -ld "$ANYSHELL_JOB_all") in
d????-??-*) ;;
*) anyshell_fail "others can write to $ANYSHELL_JOB_all; to forbid it: chmod go-w" ;;
esac
[ "$(ls "$ANYSHELL_JOB_all" | grep -c '^[0-9a-f]\{12\}$')" -lt "$ANYSHELL_JOB_most" ] ||
    anyshell_fail "$ANYSHELL_JOB_most jobs are recorded, which is the most; remove ended ones: anyshell jobs prune"

if command -v setsid >/dev/null 2>&1; then ANYSHELL_JOB_leave=setsid
elif command -v perl >/dev/null 2>&1; then ANYSHELL_JOB_leave=perl
else anyshell_fail 'a job of its own needs setsid or perl on the host, and there is neither'
fi

ANYSHELL_JOB_place=$ANYSHELL_JOB_all/$ANYSHELL_JOB_id
ANYSHELL_JOB_said=$(mkdir "$ANYSHELL_JOB_place" 2>&1) || {
    ANYSHELL_JOB_place=
    anyshell_fail "$ANYSHELL_JOB_all/$ANYSHELL_JOB_id cannot be made" "$ANYSHELL_JOB_said"
}
ANYSHELL_JOB_said=$({
    # By cat, since dash calls a full disk an I/O error; and no ":", at whose redirection dash would end.
    true >"$ANYSHELL_JOB_place/log" && mkfifo "$ANYSHELL_JOB_place/ready" &&
        # In a file, since the list of processes would show it for as long as the job runs.
        printf '%s\n' "$ANYSHELL_JOB_text" | cat >"$ANYSHELL_JOB_place/job.sh" &&
        printf '%s\n' "$ANYSHELL_JOB_request" | cat >"$ANYSHELL_JOB_place/request"
} 2>&1) || anyshell_fail "$ANYSHELL_JOB_place cannot be written to" "$ANYSHELL_JOB_said"
exec 3<>"$ANYSHELL_JOB_place/ready" 4<"$ANYSHELL_JOB_place/ready"
rm -f "$ANYSHELL_JOB_place/ready"
if [ "$ANYSHELL_JOB_script" = 1 ]; then
    # A long text, in a file that ends with this shell.
    ANYSHELL_JOB_said=$({ cat <"$ANYSHELL_SCRIPT" >"$ANYSHELL_JOB_place/script"; } 2>&1) ||
        anyshell_fail "$ANYSHELL_JOB_place cannot be written to" "$ANYSHELL_JOB_said"
    ANYSHELL_SCRIPT=$ANYSHELL_JOB_place/script
fi

# Passes on the word of the job's first shell. It is this one that runs beside, and not the job: what a shell runs
# beside ignores interrupts for ever (POSIX, 2.11).
{
    exec 3>&-
    IFS= read -r ANYSHELL_JOB_word <&4 || ANYSHELL_JOB_word="error the shell that was to supervise it did not start"
    printf '%s\n' "$ANYSHELL_JOB_word"
} &
exec 4<&-

unset ANYSHELL_USED  # with the descriptor that it names
# Whatever else was inherited goes, such as the life pipe: a job that held it would be taken for left behind. Not every
# shell can name a descriptor above 9 (dash); then another program closes it.
ANYSHELL_JOB_high=
for ANYSHELL_JOB_fd in /dev/fd/* /proc/self/fd/*; do
    ANYSHELL_JOB_fd=${ANYSHELL_JOB_fd##*/}
    case $ANYSHELL_JOB_fd in
    [5-9]) eval "exec $ANYSHELL_JOB_fd>&-" ;;
    [1-9][0-9] | [1-9][0-9][0-9] | [1-9][0-9][0-9][0-9]) ANYSHELL_JOB_high="$ANYSHELL_JOB_high $ANYSHELL_JOB_fd" ;;
    esac
done
if (eval 'exec 10>&-') 2>/dev/null; then
    for ANYSHELL_JOB_fd in $ANYSHELL_JOB_high; do eval "exec $ANYSHELL_JOB_fd>&-"; done
    ANYSHELL_JOB_high=
fi

set -- /bin/sh "$ANYSHELL_JOB_place/job.sh" supervise "$ANYSHELL_JOB_leave" "$ANYSHELL_JOB_umask" "$ANYSHELL_JOB_path" "$@"
# This shell leads its session, so that either of them goes on in a new process, and this one ends.
case $ANYSHELL_JOB_leave in
setsid) set -- setsid "$@" ;;
perl) set -- perl -MPOSIX -e 'fork and exit if getpgrp == $$; POSIX::setsid(); exec {$ARGV[0]} @ARGV' "$@" ;;
esac
if [ "$ANYSHELL_JOB_high" ] && command -v bash >/dev/null 2>&1; then
    set -- bash --norc --noprofile -c 'for fd in $1; do eval "exec $fd>&-"; done; shift; exec "$@"' close \
        "$ANYSHELL_JOB_high" "$@"
elif [ "$ANYSHELL_JOB_high" ] && command -v perl >/dev/null 2>&1; then
    set -- perl -MPOSIX -e 'POSIX::close($_) for split " ", shift; exec {$ARGV[0]} @ARGV' "$ANYSHELL_JOB_high" "$@"
fi
exec "$@" </dev/null >/dev/null 2>&1
