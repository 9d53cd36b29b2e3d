# Find jobs again by what is written down of them, say how they are, and signal or remove them.
#
#   look.sh DIRECTORY list [PREFIX]         every job whose id begins so:
#                                           job ID STATE CODE ENDED STOPPED SIZE PID TIME REQUEST
#                                           bare ID, a directory in which no record is yet
#   look.sh DIRECTORY signal NAME ID        signal what lives of a job, and name it: process PID BEGAN NAME. NAME may be 0
#   look.sh DIRECTORY remove ID...          remove the records of jobs of which nothing runs: removed ID
#
# Before that comes "directory PATH", in the end "over TIME". STATE is running, ended or lost.
# A process is known by pid, start and boot together; a pid alone says nothing.
# The directory can be one that has other things in it, and a record one that a full disk has cut, or somebody edited.

# shellcheck shell=sh disable=SC1007,SC2046,SC2086  # word splitting takes a line of /proc apart

LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin
unset LS_BLOCK_SIZE BLOCK_SIZE  # in which GNU's ls would give sizes
jobs=$1 verb=$2
shift 2

if [ -r /proc/self/stat ]; then proc=1; else proc=; fi
read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id || boot=-
# dash takes a group for an option without "--", and busybox's ash takes "--" for a process.
if kill -s 0 -- $$ 2>/dev/null; then end=--; else end=; fi
# The entries of an environment end with a NUL byte. A value may quote a mark, also after a line feed; not every grep
# can tell (busybox's).
case $(printf 'a=\nANYSHELL_JOB_1=\0ANYSHELL_JOB_2=\0' | grep -azHo '^ANYSHELL_JOB_[0-9a-f]*=' 2>/dev/null | tr '\0' '\n') in
*JOB_1*) grep_by_entry= ;;
*:ANYSHELL_JOB_2=) grep_by_entry=1 ;;
*) grep_by_entry= ;;
esac

is_number() {
    case $1 in '' | *[!0-9]* | ????????????*) return 1 ;; esac
}

# is_job ID: whether a job of that name can be there
is_job() {
    case $1 in
    *[!0-9a-f]*) return 1 ;;
    ????????????) [ -d "$jobs/$1" ] && [ ! -L "$jobs/$1" ] ;;
    *) return 1 ;;
    esac
}

# is_only_ours: whether nothing is in $job that no job has
is_only_ours() {
    for file in "$job"/* "$job"/.*; do
        case ${file##*/} in
        . | ..) continue ;;
        log | ready | job.sh | request | script | record | record.part | exit | exit.part | stopped | seen | seen.[0-9]*)
            [ ! -d "$file" ] || return 1
            ;;
        *) if [ -e "$file" ] || [ -L "$file" ]; then return 1; fi ;;
        esac
    done
}

# is_alive PID BEGAN: whether that very process is there and no zombie
is_alive() {
    if [ "$proc" ]; then
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
        [ "$stat" ] || return 1
        wanted=$2
        set -- ${stat##*) }
        case $1 in Z | X) return 1 ;; esac
        [ "${20}" = "$wanted" ]
    else
        wanted=$2
        set -- $(TZ=UTC0 ps -o state= -o lstart= -p "$1")
        case ${1-} in Z* | '') return 1 ;; esac
        [ "$3-$4-$5-$6" = "$wanted" ]
    fi
}

# inspect ID: set what is known of a job
inspect() {
    job=$jobs/$1
    pid= began= supervisor= supervisor_began= booted= time= request= leads= state=
    code=- ended=- stopped=0
    [ -e "$job/record" ] || return 1
    IFS= read -r request 2>/dev/null <"$job/request"
    read -r pid began supervisor supervisor_began booted time 2>/dev/null <"$job/record" || state=lost
    case $pid in 0* | 1) state=lost ;; esac # no job has these, and to signal them is to signal others
    if [ "$state" ] || ! is_number "$pid" || ! is_number "$supervisor" || ! is_number "$time"; then
        # It names nobody. What lives of the job still has its mark.
        pid=0 began=0 booted=$boot time=0 state=lost
        return 0
    fi
    # The exit is written after the end, so it is looked for after who writes it.
    if [ "$booted" = "$boot" ] && is_alive "$pid" "$began"; then
        state=running leads=1
    elif [ ! -e "$job/exit" ] && [ "$booted" = "$boot" ] && is_alive "$supervisor" "$supervisor_began"; then
        state=running
    elif [ -e "$job/exit" ]; then
        state=ended
        read -r code ended 2>/dev/null <"$job/exit"
        if ! is_number "$code" || ! is_number "$ended"; then state=lost code=- ended=-; fi
    else
        state=lost
    fi
    if [ -e "$job/stopped" ]; then stopped=1; fi
}

list() {
    for each in "$jobs"/*; do
        each=${each##*/}
        case $each in "${1-}"*) is_job "$each" || continue ;; *) continue ;; esac
        inspect "$each" || {
            if is_only_ours; then printf 'bare %s\n' "$each"; fi
            continue
        }
        set -- "${1-}" $(ls -lnd "$job/log" 2>/dev/null)
        size=${6-}
        is_number "$size" || size=0
        printf 'job %s %s %s %s %s %s %s %s %s\n' \
            "$each" "$state" "$code" "$ended" "$stopped" "$size" "$pid" "$time" "$request"
    done
}

# Each process that started after the job: p PID PARENT GROUP SESSION BEGAN NAME.
young() {
    if [ ! "$proc" ]; then
        TZ=UTC0 ps -A -o pid= -o ppid= -o pgid= -o state= -o lstart= -o comm= | awk -v own="$$" '
            $4 !~ /^Z/ && $1 != own && $2 != own {
                name = $10; sub(/.*\//, "", name)
                print "p", $1, $2, $3, $3, $6 "-" $7 "-" $8 "-" $9, name
            }'
        return
    fi
    printf '%s\n' /proc/[0-9]* | awk -v since="$began" -v own="$$" '
        {
            stat = ""
            while ((getline line < ($0 "/stat")) > 0) stat = stat " " line
            close($0 "/stat")
            # The name, in parentheses, may hold anything, line feeds and parentheses too.
            if (!match(stat, /.*\)/)) next
            name = substr(stat, 1, RLENGTH - 1); sub(/^[^(]*\(/, "", name); gsub(/[^!-~]/, "?", name)
            split(substr(stat, RLENGTH + 2), field, " ")
            if (field[20] + 0 < since + 0 || field[1] == "Z" || field[1] == "X") next
            pid = substr($0, 7)
            if (pid == own || field[2] == own) next
            print "p", pid, field[2], field[3], field[4], field[20], name
        }'
}

# Each process that has the mark of a job: m PID ID. Only /proc shows that.
marked() {
    [ "$proc" ] || return 0
    if [ "$grep_by_entry" ]; then
        printf '%s\n' /proc/[0-9]*/environ | xargs grep -azHo '^ANYSHELL_JOB_[0-9a-f]*=' 2>/dev/null | tr '\0' '\n'
    else
        for each in /proc/[0-9]*/environ; do
            tr '\n\0' '?\n' 2>/dev/null <"$each" | sed -n "s|^ANYSHELL_JOB_[0-9a-f]*=|$each:&|p"
        done
    fi | sed -n 's|^/proc/\([0-9]*\)/environ:ANYSHELL_JOB_\([0-9a-f]*\)=.*|m \1 \2|p'
}

# members ID: what lives of a job, as PID GROUP BEGAN NAME. By the mark, by descent, by having been one at an earlier look
# (the same lines, in "seen"), and while its first process lives, whose number cannot have come to mean another then, by
# session.
members() {
    {
        young
        marked
        sed 's/^/s /' "$job/seen" 2>/dev/null
    } | awk -v id="$1" -v leader="${leads:+$pid}" '
        $1 == "p" { parent[$2] = $3; session[$2] = $5; began[$2] = $6; text[$2] = $2 " " $4 " " $6 " " $7 }
        $1 == "m" && $3 == id { member[$2] = 1 }
        $1 == "s" { seen[$2, $4] = 1 }
        END {
            for (each in parent) {
                if (leader != "" && (each == leader || session[each] == leader)) member[each] = 1
                if ((each, began[each]) in seen) member[each] = 1
            }
            do {
                grown = 0
                for (each in parent) if (!(each in member) && (parent[each] in member)) { member[each] = 1; grown = 1 }
            } while (grown)
            for (each in member) if (each in text) print text[each]
        }'
}

signal() {
    inspect "$2" || return
    # Before another boot it was another job's, if anybody's.
    [ "$booted" = "$boot" ] || return
    found=$(members "$2")
    [ "$found" ] || return
    # Before anything of it ends: who is found by its session or its parent alone could not be found again after that.
    if ! { printf '%s\n' "$found" >"$job/seen.$$" && mv -f "$job/seen.$$" "$job/seen"; } 2>/dev/null &&
        [ "$1" != KILL ]; then
        printf 'error %s cannot be written to: make room, or stop the job with a grace of 0\n' "$job"
        exit 1
    fi
    if [ "$1" != 0 ] && [ "$state" = running ]; then : >"$job/stopped"; fi
    # All of its group at once: a shell whose child ends first would go on with its next command.
    if [ "$leads" ] && is_alive "$pid" "$began"; then send "$1" "-$pid"; fi
    printf '%s\n' "$found" | while read -r each group since name; do
        # Each is asked but once: a program may do something for each time that it is asked.
        if [ "$1" = KILL ] || [ ! "$leads" ] || [ "$group" != "$pid" ]; then
            is_alive "$each" "$since" && send "$1" "$each"
        fi
        printf 'process %s %s %s\n' "$each" "$since" "$name"
    done
}

send() {
    [ "$1" != 0 ] || return
    kill -s "$1" $end "$2" 2>/dev/null
    # What is stopped acts on no other signal.
    [ "$1" = KILL ] || kill -s CONT $end "$2" 2>/dev/null
}

# Whether something lives that an earlier look has seen of the job.
is_seen_alive() {
    [ -r "$job/seen" ] || return 1
    while read -r each_seen _ since _; do
        if is_alive "$each_seen" "$since"; then return 0; fi
    done <"$job/seen"
    return 1
}

remove() {
    living=$(marked)
    for each; do
        is_job "$each" || continue
        if inspect "$each"; then
            [ "$state" != running ] || continue
            # Without its record, nobody could stop what is left of it.
            case $living in *" $each"*) continue ;; esac
            if [ "$booted" = "$boot" ] && is_seen_alive; then continue; fi
        # Nothing is written down of it: it is just being started, or was killed while it was.
        elif [ ! "$(find "$job" -prune -mtime +0 2>/dev/null)" ]; then continue
        fi
        is_only_ours || continue
        rm -rf "$job" && [ ! -e "$job" ] && printf 'removed %s\n' "$each"
    done
}

[ "$jobs" ] || jobs=${ANYSHELL_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/anyshell}/jobs
printf 'directory %s\n' "$jobs"
case $jobs in
*'
'*) printf 'error it has a line feed in its name\n'; exit 1 ;;
/*) ;;
*) printf 'error %s is no absolute path\n' "$jobs"; exit 1 ;;
esac
if [ -e "$jobs" ]; then
    if [ -L "$jobs" ] || [ ! -O "$jobs" ] || [ ! -r "$jobs" ]; then
        printf "error %s is a link, or another user's\n" "$jobs"
        exit 1
    fi
    case $verb in
    list) list "$@" ;;
    signal) signal "$@" ;;
    remove) remove "$@" ;;
    esac
fi
printf 'over %s\n' "$(date +%s)"
