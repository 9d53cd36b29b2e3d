# The two shells of a job: the supervisor waits for the program and records its end; the other shell becomes the program.
#
#   JOB/job.sh supervise LEAVE UMASK PATH PROGRAM ARGUMENT...
#   JOB/job.sh begin SUPERVISOR UMASK PATH PROGRAM ARGUMENT...
#
# While a job runs, the supervisor is the only process of anyshell's on the host. Supervisor and program each lead a
# session: a signal to the program's process group does not end the supervisor. LEAVE is setsid or perl, which make a
# session. SUPERVISOR is the supervisor's "PID BEGAN". UMASK and PATH are the caller's. Descriptor 3 takes one line for the
# process that started the job.

# shellcheck shell=sh disable=SC2016,SC2046,SC2086,SC3045

ANYSHELL_JOB_place=${0%/*} ANYSHELL_JOB_verb=$1 ANYSHELL_JOB_first=$2 ANYSHELL_JOB_umask=$3 ANYSHELL_JOB_path=$4
shift 4

# find_began: set $ANYSHELL_JOB_began to the start of this shell, in clock ticks since boot; without /proc, to a date.
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
    # Catch these signals: the program would inherit ignored signals. A shell that waits for a program in the foreground
    # acts on a signal only when the program has ended.
    trap : HUP INT QUIT TERM
    # Remove the tag, an unused limit: it is the tag of the command that started the job. This shell removes the tag, not
    # start.sh, since the tag may be set a moment after the command's start.
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
        # Without a record, the program did not begin. If the record cannot be written, cat prints the reason.
        ANYSHELL_JOB_said=$({ echo | cat >"$ANYSHELL_JOB_place/record.part"; } 2>&1)
        rm -rf "$ANYSHELL_JOB_place"
        printf 'error it did not begin; nothing was run%s\n' "${ANYSHELL_JOB_said:+: ${ANYSHELL_JOB_said##*: }}" >&3
    fi
}

# record: write the record of the job. Its first line is "PID BEGAN PID BEGAN BOOT TIME": the first pair is the program's, the
# second pair the supervisor's. The second line is "MACHINE NAMESPACE".
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
