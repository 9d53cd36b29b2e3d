# Start a job that nothing of ours holds, say how that went in one line ("started PID TIME JOB" or "error WORDS"), and end.
#
#   start.sh TEXT DIRECTORY ID MOST REQUEST PROGRAM ARGUMENT...
#
# TEXT is that of the next two shells, job.sh; DIRECTORY holds the jobs, and is the user's own if empty.
# REQUEST is one line that is kept as it is.
# Every name here begins with anyshell_: the caller's variables are there too, and must reach the job as they are.

# shellcheck shell=sh disable=SC2012,SC2015,SC2016,SC2094

anyshell_text=$1 anyshell_jobs=$2 anyshell_id=$3 anyshell_most=$4 anyshell_request=$5
shift 5
anyshell_umask=$(umask)
umask 077
anyshell_path=$PATH
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin

anyshell_fail() {
    [ "$anyshell_job" ] && rm -rf "$anyshell_job"
    printf 'error %s\n' "$1"
    exit 1
}

anyshell_job=
[ "$anyshell_jobs" ] ||
    anyshell_jobs=${ANYSHELL_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/anyshell}/jobs
case $anyshell_jobs in
*'
'*) anyshell_fail 'the directory of jobs has a line feed in its name' ;;
/*) ;;
*) anyshell_fail "$anyshell_jobs is no absolute path" ;;
esac
mkdir -p "$anyshell_jobs" 2>/dev/null
[ -d "$anyshell_jobs" ] || anyshell_fail "$anyshell_jobs cannot be made"
# What lies in a directory of somebody else's need not be what was put there.
[ ! -L "$anyshell_jobs" ] && [ -O "$anyshell_jobs" ] || anyshell_fail "$anyshell_jobs is a link, or another user's"
chmod 700 "$anyshell_jobs" || anyshell_fail "$anyshell_jobs cannot be made private"
[ "$(ls "$anyshell_jobs" | wc -l)" -lt "$anyshell_most" ] ||
    anyshell_fail "$anyshell_most jobs are recorded, which is the most; remove ended ones: anyshell jobs prune"

if command -v setsid >/dev/null 2>&1; then anyshell_leave=setsid
elif command -v perl >/dev/null 2>&1; then anyshell_leave=perl
else anyshell_fail 'a job of its own needs setsid or perl on the host, and there is neither'
fi

anyshell_job=$anyshell_jobs/$anyshell_id
mkdir "$anyshell_job" 2>/dev/null || { anyshell_job=; anyshell_fail "$anyshell_jobs/$anyshell_id cannot be made"; }
{
    : >"$anyshell_job/log" && mkfifo "$anyshell_job/ready" &&
        # In a file, since the list of processes would show it for as long as the job runs.
        printf '%s\n' "$anyshell_text" >"$anyshell_job/job.sh" &&
        printf '%s\n' "$anyshell_request" >"$anyshell_job/request"
} 2>/dev/null || anyshell_fail "$anyshell_job cannot be written to"
exec 3<>"$anyshell_job/ready" 4<"$anyshell_job/ready"
rm -f "$anyshell_job/ready"
case ${ANYSHELL_SCRIPT-} in
?*)
    # A long text, in a file that ends with this shell.
    cat <"$ANYSHELL_SCRIPT" >"$anyshell_job/script" || anyshell_fail "$anyshell_job cannot be written to"
    ANYSHELL_SCRIPT=$anyshell_job/script
    ;;
esac

# Passes on the word of the job's first shell. It is this one that runs beside, and not the job: what a shell runs
# beside ignores interrupts for ever (POSIX, 2.11).
{
    exec 3>&-
    IFS= read -r anyshell_word <&4 || anyshell_word="error the shell that was to supervise it did not start"
    printf '%s\n' "$anyshell_word"
} &
exec 4<&-

# Who carries a mark is stopped with a command. A job is not, nor with the job that it was started from.
for anyshell_mark in $(
    env | sed -n -e 's/^\(ANYSHELL_MARK_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(ANYSHELL_REMOTE_[A-Za-z0-9_]*\)=.*/\1/p' \
        -e 's/^\(ANYSHELL_JOB_[A-Za-z0-9_]*\)=.*/\1/p'
); do
    unset "$anyshell_mark"
done

# Whatever else was inherited goes, such as the life pipe: a job that held it would be taken for left behind. Not every
# shell can name a descriptor above 9 (dash); then another program closes it.
anyshell_high=
for anyshell_fd in /dev/fd/* /proc/self/fd/*; do
    anyshell_fd=${anyshell_fd##*/}
    case $anyshell_fd in
    [5-9]) eval "exec $anyshell_fd>&-" ;;
    [1-9][0-9] | [1-9][0-9][0-9] | [1-9][0-9][0-9][0-9]) anyshell_high="$anyshell_high $anyshell_fd" ;;
    esac
done
if (eval 'exec 10>&-') 2>/dev/null; then
    for anyshell_fd in $anyshell_high; do eval "exec $anyshell_fd>&-"; done
    anyshell_high=
fi

set -- /bin/sh "$anyshell_job/job.sh" supervise "$anyshell_leave" "$anyshell_umask" "$anyshell_path" "$@"
# This shell leads its session, so that either of them goes on in a new process, and this one ends.
case $anyshell_leave in
setsid) set -- setsid "$@" ;;
perl) set -- perl -MPOSIX -e 'fork and exit if getpgrp == $$; POSIX::setsid(); exec {$ARGV[0]} @ARGV' "$@" ;;
esac
if [ "$anyshell_high" ] && command -v bash >/dev/null 2>&1; then
    set -- bash --norc --noprofile -c 'for fd in $1; do eval "exec $fd>&-"; done; shift; exec "$@"' close \
        "$anyshell_high" "$@"
elif [ "$anyshell_high" ] && command -v perl >/dev/null 2>&1; then
    set -- perl -MPOSIX -e 'POSIX::close($_) for split " ", shift; exec {$ARGV[0]} @ARGV' "$anyshell_high" "$@"
fi
exec "$@" </dev/null >/dev/null 2>&1
