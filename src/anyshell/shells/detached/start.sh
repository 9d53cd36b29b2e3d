# Start a job that outlives anyshell, print the result in one line ("started PID TIME JOB" or "error WORDS"), and end.
#
#   start.sh TEXT DIRECTORY ID MOST SCRIPT REQUEST PROGRAM ARGUMENT...
#
# TEXT is the text of job.sh, which the next two shells run. DIRECTORY holds the jobs; an empty DIRECTORY means the user's own.
# ID names the job, and MOST is the number of jobs that may be recorded, this one included.
# SCRIPT is 1 if anyshell made the file of $ANYSHELL_SCRIPT. REQUEST is one line, which is recorded unchanged.
# Every variable of this text begins with ANYSHELL_JOB_: the caller's variables must reach the job unchanged.

# shellcheck shell=sh disable=SC2010,SC2012,SC2015,SC2016,SC2030,SC2031,SC2094

# Remove marks: a process with a mark is stopped with the command or job of that mark, and the new job must outlive both.
# This step comes first: a variable of the caller's that has one of the names below stays exported. So the value that
# this text gives to the variable would become part of the job's environment.
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

# anyshell_fail WORDS [SAID]: remove the job's directory, report the error and exit. SAID is the message of a program; its
# part after the last colon is the reason.
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
*) anyshell_fail "$ANYSHELL_JOB_all is not an absolute path" ;;
esac
ANYSHELL_JOB_said=$(mkdir -p "$ANYSHELL_JOB_all" 2>&1)
[ -d "$ANYSHELL_JOB_all" ] || anyshell_fail "$ANYSHELL_JOB_all cannot be made" "$ANYSHELL_JOB_said"
# In another user's directory, that user could replace the files.
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
    # Write through cat, since dash itself reports a full disk as an I/O error. Use true, since dash ends when the
    # redirection of ":" fails.
    true >"$ANYSHELL_JOB_place/log" && mkfifo "$ANYSHELL_JOB_place/ready" &&
        # Write the text to a file: the list of processes would show an argument for as long as the job runs.
        printf '%s\n' "$ANYSHELL_JOB_text" | cat >"$ANYSHELL_JOB_place/job.sh" &&
        printf '%s\n' "$ANYSHELL_JOB_request" | cat >"$ANYSHELL_JOB_place/request"
} 2>&1) || anyshell_fail "$ANYSHELL_JOB_place cannot be written to" "$ANYSHELL_JOB_said"
exec 3<>"$ANYSHELL_JOB_place/ready" 4<"$ANYSHELL_JOB_place/ready"
rm -f "$ANYSHELL_JOB_place/ready"
if [ "$ANYSHELL_JOB_script" = 1 ]; then
    # Copy the script, a long text: the original file lives only as long as this shell.
    ANYSHELL_JOB_said=$({ cat <"$ANYSHELL_SCRIPT" >"$ANYSHELL_JOB_place/script"; } 2>&1) ||
        anyshell_fail "$ANYSHELL_JOB_place cannot be written to" "$ANYSHELL_JOB_said"
    ANYSHELL_SCRIPT=$ANYSHELL_JOB_place/script
fi

# Pass on the report of the supervisor, the job's first shell. This reader runs in the background, and the job does not: a
# process that a shell starts with & ignores interrupts for ever (POSIX, 2.11).
{
    exec 3>&-
    IFS= read -r ANYSHELL_JOB_word <&4 || ANYSHELL_JOB_word="error the shell that was to supervise it did not start"
    printf '%s\n' "$ANYSHELL_JOB_word"
} &
exec 4<&-

unset ANYSHELL_USED  # with the descriptor that it names
# Close all other inherited descriptors, such as the life pipe: a job that held the life pipe would count as a remaining
# process of the command. dash cannot name a descriptor above 9; then another program (below) closes that descriptor.
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
# This shell leads its session. So both setsid and perl fork: the supervisor runs in the new process, and this process ends.
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
