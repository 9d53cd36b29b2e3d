# The two shells of a job: one waits for its program and writes down how it ended, the other becomes that program.
#
#   JOB/job.sh supervise LEAVE UMASK PATH PROGRAM ARGUMENT...
#   JOB/job.sh begin SUPERVISOR UMASK PATH PROGRAM ARGUMENT...
#
# The first is all that is left of anyshell on the host while a job runs. Each leads a session of its own: what is sent
# to the program's group does not end its supervisor. Descriptor 3 takes one line for whoever started the job.

# shellcheck shell=sh disable=SC2016,SC2046,SC2086,SC3045

anyshell_job=${0%/*} anyshell_verb=$1 anyshell_first=$2 anyshell_umask=$3 anyshell_path=$4
shift 4

# When this very shell started: in clock ticks since the boot, or as a date where there is no /proc.
anyshell_began() {
    anyshell_stat=
    if [ "${ANYSHELL_NO_PROC-}" != 1 ]; then
        while read -r anyshell_line; do anyshell_stat="$anyshell_stat $anyshell_line"; done 2>/dev/null </proc/$$/stat
    fi
    if [ "$anyshell_stat" ]; then
        set -- ${anyshell_stat##*) }
        anyshell_began=${20}
    else
        set -- $(LC_ALL=C TZ=UTC0 ps -o lstart= -p $$)
        anyshell_began=$2-$3-$4-$5
    fi
}

supervise() {
    # Not ignored, which the program would inherit. It waits in the foreground, so what comes is acted on at the end.
    trap : HUP INT QUIT TERM
    # The tag in an unused limit is that of the command which started the job; here, since it may be set a moment late.
    { ulimit -S -x unlimited || ulimit -S -w unlimited || prlimit --pid $$ --locks=unlimited: ; } >/dev/null 2>&1
    anyshell_began
    (
        set -- /bin/sh "$anyshell_job/job.sh" begin "$$ $anyshell_began" "$anyshell_umask" "$anyshell_path" "$@"
        case $anyshell_first in
        setsid) exec setsid "$@" ;;
        perl) exec perl -MPOSIX -e 'POSIX::setsid(); exec {$ARGV[0]} @ARGV' "$@" ;;
        esac
    )
    anyshell_code=$?
    if [ -e "$anyshell_job/record" ]; then
        printf '%s %s\n' "$anyshell_code" "$(date +%s)" >"$anyshell_job/exit.part" &&
            mv -f "$anyshell_job/exit.part" "$anyshell_job/exit"
    else
        printf 'error it did not begin; nothing was run\n' >&3
        rm -rf "$anyshell_job"
    fi
}

# The record is one line, "PID BEGAN PID BEGAN BOOT TIME": the program's, and its supervisor's.
record() {
    anyshell_began
    read -r anyshell_boot 2>/dev/null </proc/sys/kernel/random/boot_id || anyshell_boot=-
    anyshell_now=$(date +%s)
    printf '%s %s %s %s %s\n' $$ "$anyshell_began" "$anyshell_first" "$anyshell_boot" "$anyshell_now" \
        >"$anyshell_job/record.part" && mv -f "$anyshell_job/record.part" "$anyshell_job/record"
}

if [ "$anyshell_verb" = supervise ]; then
    supervise "$@"
    exit
fi
record 2>/dev/null || exit 125
printf 'started %s %s %s\n' $$ "$anyshell_now" "$anyshell_job" >&3
exec 3>&-
umask "$anyshell_umask"
PATH=$anyshell_path
export "ANYSHELL_JOB_${anyshell_job##*/}=1"
exec "$@" </dev/null >>"$anyshell_job/log" 2>&1
