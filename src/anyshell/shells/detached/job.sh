# The two shells of a job: one waits for its program and writes down how it ended, the other becomes that program.
#
#   JOB/job.sh supervise LEAVE UMASK PATH PROGRAM ARGUMENT...
#   JOB/job.sh begin SUPERVISOR UMASK PATH PROGRAM ARGUMENT...
#
# The first is all that is left of anyshell on the host while a job runs. Each leads a session of its own: what is sent
# to the program's group does not end its supervisor. Descriptor 3 takes one line for the process that started the job.

# shellcheck shell=sh disable=SC2016,SC2046,SC2086,SC3045

ANYSHELL_JOB_place=${0%/*} ANYSHELL_JOB_verb=$1 ANYSHELL_JOB_first=$2 ANYSHELL_JOB_umask=$3 ANYSHELL_JOB_path=$4
shift 4

# When this very shell started: in clock ticks since the boot, or as a date where there is no /proc.
find_began() {
    ANYSHELL_JOB_stat=
    while read -r ANYSHELL_JOB_line; do
        ANYSHELL_JOB_stat="$ANYSHELL_JOB_stat $ANYSHELL_JOB_line"
    done 2>/dev/null </proc/$$/stat
    if [ "$ANYSHELL_JOB_stat" ]; then
        set -- ${ANYSHELL_JOB_stat##*) }
        ANYSHELL_JOB_began=${20}
    else
        set -- $(LC_ALL=C TZ=UTC0 ps -o lstart= -p $$)
        ANYSHELL_JOB_began=$2-$3-$4-$5
    fi
}

supervise() {
    # Not ignored, which the program would inherit. It waits in the foreground, so what comes is acted on at the end.
    trap : HUP INT QUIT TERM
    # The tag in an unused limit is that of the command which started the job; here, since it may be set a moment late.
    { ulimit -S -x unlimited || ulimit -S -w unlimited || prlimit --pid $$ --locks=unlimited: ; } >/dev/null 2>&1
    find_began
    (
        set -- "$$ $ANYSHELL_JOB_began" "$ANYSHELL_JOB_umask" "$ANYSHELL_JOB_path" "$@"
        set -- /bin/sh "$ANYSHELL_JOB_place/job.sh" begin "$@"
        case $ANYSHELL_JOB_first in
        setsid) exec setsid "$@" ;;
        perl) exec perl -MPOSIX -e 'POSIX::setsid(); exec {$ARGV[0]} @ARGV' "$@" ;;
        esac
    )
    ANYSHELL_JOB_code=$?
    if [ -e "$ANYSHELL_JOB_place/record" ]; then
        printf '%s %s\n' "$ANYSHELL_JOB_code" "$(date +%s)" >"$ANYSHELL_JOB_place/exit.part" &&
            mv -f "$ANYSHELL_JOB_place/exit.part" "$ANYSHELL_JOB_place/exit"
    else
        # If its record cannot be written, cat tells why.
        ANYSHELL_JOB_said=$({ echo | cat >"$ANYSHELL_JOB_place/record.part"; } 2>&1)
        rm -rf "$ANYSHELL_JOB_place"
        printf 'error it did not begin; nothing was run%s\n' "${ANYSHELL_JOB_said:+: ${ANYSHELL_JOB_said##*: }}" >&3
    fi
}

# The record: "PID BEGAN PID BEGAN BOOT TIME", the program's and its supervisor's; in a second line "MACHINE NAMESPACE".
record() {
    find_began
    read -r ANYSHELL_JOB_boot 2>/dev/null </proc/sys/kernel/random/boot_id || ANYSHELL_JOB_boot=-
    ANYSHELL_JOB_now=$(date +%s)
    printf '%s %s %s %s %s\n%s\n' \
        $$ "$ANYSHELL_JOB_began" "$ANYSHELL_JOB_first" "$ANYSHELL_JOB_boot" "$ANYSHELL_JOB_now" "$(anyshell_place)" \
        >"$ANYSHELL_JOB_place/record.part" && mv -f "$ANYSHELL_JOB_place/record.part" "$ANYSHELL_JOB_place/record"
}

if [ "$ANYSHELL_JOB_verb" = supervise ]; then
    supervise "$@"
    exit
fi
record 2>/dev/null || exit 125
printf 'started %s %s %s\n' $$ "$ANYSHELL_JOB_now" "$ANYSHELL_JOB_place" >&3
exec 3>&-
umask "$ANYSHELL_JOB_umask"
PATH=$ANYSHELL_JOB_path
export "ANYSHELL_JOB_${ANYSHELL_JOB_place##*/}=1"
exec "$@" </dev/null >>"$ANYSHELL_JOB_place/log" 2>&1
