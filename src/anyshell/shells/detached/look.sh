# Find jobs again by what is written down of them, say how they are, and signal or remove them.
#
#   look.sh DIRECTORY list [PREFIX]         every job whose id begins so:
#                                           job ID STATE CODE ENDED STOPPED SIZE PID TIME REQUEST
#                                           bare ID, which has no record
#   look.sh DIRECTORY signal NAME ID        signal what lives of a job, and name it: process PID BEGAN NAME. NAME may be 0
#   look.sh DIRECTORY remove ID...          remove the records of jobs that do not run: removed ID
#
# Before that comes "directory PATH", in the end "over TIME". STATE is running, ended or lost.
# A process is known by pid, start and boot together; a pid alone says nothing.

# shellcheck shell=sh disable=SC1007,SC2045,SC2046,SC2086  # word splitting takes a line of /proc apart

LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin
jobs=$1 verb=$2
shift 2

if [ -r /proc/self/stat ] && [ "${ANYSHELL_NO_PROC-}" != 1 ]; then proc=1; else proc=; fi
read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id || boot=-
# dash takes a group for an option without "--", and busybox's ash takes "--" for a process.
if kill -s 0 -- $$ 2>/dev/null; then end=--; else end=; fi
# busybox's grep stops at a NUL byte, and a process's environment is full of them.
if printf 'a\0b' | grep -q b 2>/dev/null; then grep_sees_all=1; else grep_sees_all=; fi

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
    pid= began= supervisor= supervisor_began= booted= time= request=
    read -r pid began supervisor supervisor_began booted time 2>/dev/null <"$job/record" || return 1
    IFS= read -r request 2>/dev/null <"$job/request" || return 1
    case $pid$supervisor$time in '' | *[!0-9]*) return 1 ;; esac
    code=- ended=- stopped=0
    leads=
    # The exit is written after the end, so it is looked for after who writes it.
    if [ "$booted" = "$boot" ] && is_alive "$pid" "$began"; then
        state=running leads=1
    elif [ ! -e "$job/exit" ] && [ "$booted" = "$boot" ] && is_alive "$supervisor" "$supervisor_began"; then
        state=running
    elif [ -e "$job/exit" ]; then
        state=ended
        read -r code ended <"$job/exit"
        code=${code:--} ended=${ended:--}
    else
        state=lost
    fi
    if [ -e "$job/stopped" ]; then stopped=1; fi
}

list() {
    for each in $(ls "$jobs"); do
        case $each in *[!0-9a-f]*) continue ;; "${1-}"*) ;; *) continue ;; esac
        inspect "$each" || { printf 'bare %s\n' "$each"; continue; }
        set -- "${1-}" $(ls -ln "$job/log" 2>/dev/null)
        printf 'job %s %s %s %s %s %s %s %s %s\n' \
            "$each" "$state" "$code" "$ended" "$stopped" "${6:-0}" "$pid" "$time" "$request"
    done
}

# Each process that started after the job, with the letter p; and those that carry its mark, with the letter m.
young() {
    if [ ! "$proc" ]; then
        TZ=UTC0 ps -A -o pid= -o ppid= -o pgid= -o state= -o lstart= -o comm= | awk -v own="$$" '
            $4 !~ /^Z/ && $1 != own && $2 != own {
                name = $10; sub(/.*\//, "", name)
                print "p", $1, $2, $3, $3, $6 "-" $7 "-" $8 "-" $9, name
            }'
        return
    fi
    found=$(
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
    )
    printf '%s\n' "$found"
    printf '%s\n' "$found" | while read -r _ each _; do
        if [ "$grep_sees_all" ]; then
            printf '/proc/%s/environ\n' "$each"
        elif tr '\0' '\n' 2>/dev/null <"/proc/$each/environ" | grep -q "^ANYSHELL_JOB_$1="; then
            printf 'm %s\n' "$each"
        fi
    done | if [ "$grep_sees_all" ]; then
        xargs grep -lF -- "ANYSHELL_JOB_$1=" 2>/dev/null | sed 's/[^0-9]*\([0-9]*\).*/m \1/'
    else cat
    fi
}

# members ID: what lives of a job, as PID GROUP BEGAN NAME. By the mark, by descent, and while its first process lives, whose
# number cannot have come to mean another then, by session.
members() {
    young "$1" | awk -v leader="${leads:+$pid}" '
        $1 == "p" { parent[$2] = $3; session[$2] = $5; text[$2] = $2 " " $4 " " $6 " " $7 }
        $1 == "m" { member[$2] = 1 }
        END {
            if (leader != "") for (each in parent) if (each == leader || session[each] == leader) member[each] = 1
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

remove() {
    for each; do
        job=$jobs/$each
        if inspect "$each"; then [ "$state" != running ] || continue
        # Nothing is written down of it: it is just being started, or was killed while it was.
        elif [ ! "$(find "$job" -prune -mtime +0 2>/dev/null)" ]; then continue
        fi
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
