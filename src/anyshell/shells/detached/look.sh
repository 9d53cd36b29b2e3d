# Find detached jobs by their records, report their state, and signal or remove them.
#
#   look.sh DIRECTORY list [PREFIX]         print every job whose id begins with PREFIX:
#                                           job ID STATE CODE ENDED STOPPED SIZE PID TIME REQUEST
#                                           bare ID, for a directory without a record yet
#   look.sh DIRECTORY signal NAME ID        signal the living processes of a job, and print them: process PID BEGAN NAME.
#                                           With 0 for NAME, only print them
#   look.sh DIRECTORY remove ID...          remove the records of jobs without a running process: removed ID
#
# The first line is "directory PATH", the last "over TIME". STATE is running, ended, lost or foreign.
# Pid, start, boot and pid namespace together identify a process; a pid alone does not. A record of another machine or
# another pid namespace is foreign: the job's processes cannot be seen here, so the job is neither signalled nor removed.
# The directory may have foreign files in it. A full disk may have cut a record, or a person may have edited it.

# shellcheck shell=sh disable=SC1007,SC2046,SC2086  # word splitting takes a line of /proc apart

LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin
unset LS_BLOCK_SIZE BLOCK_SIZE  # in which GNU's ls would give sizes
jobs=$1 verb=$2
shift 2

if [ -r /proc/self/stat ]; then proc=1; else proc=; fi
read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id || boot=-
# Without "--", dash takes the number of a process group for an option; busybox's ash takes "--" for a process.
if kill -s 0 -- $$ 2>/dev/null; then end=--; else end=; fi
# The entries of an environment end with a NUL byte. The value of a variable may quote a mark, also after a line feed; an awk
# that cannot split at NUL bytes (busybox's) cannot tell a quoted mark from a mark.
case $(printf 'a=\nANYSHELL_JOB_1=\0ANYSHELL_JOB_2=\0' | awk 'BEGIN { RS = "\0" } /^ANYSHELL_JOB_/ { print }') in
ANYSHELL_JOB_2=) by_entry=1 ;;
*) by_entry= ;;
esac
own_place=$(anyshell_place)
machine=${own_place% *} namespace=${own_place##* }

is_number() {
    case $1 in '' | *[!0-9]* | ????????????*) return 1 ;; esac
}

# is_job ID: whether ID is the id of a job that has a directory
is_job() {
    case $1 in
    *[!0-9a-f]*) return 1 ;;
    ????????????) [ -d "$jobs/$1" ] && [ ! -L "$jobs/$1" ] ;;
    *) return 1 ;;
    esac
}

# is_file PATH: whether PATH is a regular file, which can be read without waiting, and not a link
is_file() {
    [ -f "$1" ] && [ ! -L "$1" ]
}

# is_only_ours: whether $job has only the files of a job
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

# is_alive PID BEGAN: whether that very process exists and has a living thread. A process whose main thread has ended before
# the others is shown as a zombie.
is_alive() {
    if [ "$proc" ]; then
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
        [ "$stat" ] || return 1
        wanted=$2
        set -- ${stat##*) }
        case $1 in Z | X) [ "${18}" -gt 1 ] || return 1 ;; esac
        [ "${20}" = "$wanted" ]
    else
        wanted=$2
        set -- $(TZ=UTC0 ps -o state= -o lstart= -p "$1")
        case ${1-} in Z* | '') return 1 ;; esac
        [ "$3-$4-$5-$6" = "$wanted" ]
    fi
}

# inspect ID: set the variables of a job's state
inspect() {
    job=$jobs/$1
    pid= began= supervisor= supervisor_began= booted= time= place= request= leads= state= here= foreign=
    code=- ended=- stopped=0
    [ -e "$job/record" ] || return 1
    if is_file "$job/request"; then IFS= read -r request 2>/dev/null <"$job/request"; fi
    # A record of an older anyshell has no second line.
    if is_file "$job/record"; then
        { read -r pid began supervisor supervisor_began booted time || pid=; read -r place; } 2>/dev/null <"$job/record"
    fi
    case $pid in 0* | 1) state=lost ;; esac # no job has these, and to signal them is to signal others
    if [ "$state" ] || ! is_number "$pid" || ! is_number "$supervisor" || ! is_number "$time"; then
        # The record names no process. The living processes of the job still have its mark.
        pid=0 began=0 here=1 time=0 state=lost
        return 0
    fi
    if [ "$booted" != "$boot" ]; then
        # After a reboot of this machine no process of the job lives.
        case $place in "$machine "*) ;; *) foreign=1 ;; esac
    else
        case $place in
        '' | "$own_place") here=1 ;;
        *" $namespace") if [ "$boot" = - ]; then foreign=1; else here=1; fi ;;
        *) foreign=1 ;;
        esac
    fi
    # The supervisor writes the exit file last, so the file is looked for after the supervisor.
    if [ "$here" ] && is_alive "$pid" "$began"; then
        state=running leads=1
    elif [ ! -e "$job/exit" ] && [ "$here" ] && is_alive "$supervisor" "$supervisor_began"; then
        state=running
    elif [ -e "$job/exit" ]; then
        state=ended
        if is_file "$job/exit"; then read -r code ended 2>/dev/null <"$job/exit"; fi
        if ! is_number "$code" || ! is_number "$ended"; then
            state=lost code=- ended=-
        elif [ ! "$place" ]; then
            foreign= # its end is written down, and nothing says that it was elsewhere
        fi
    elif [ "$foreign" ]; then
        state=foreign
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

# list_young: set $listed to the output of young. mawk exits with an error when a process ends between the open and the read of
# the process's file in /proc, and the list is cut there: young is called again, at most five times in all.
list_young() {
    for try in 1 2 3 4 5; do listed=$(young 2>/dev/null) && return; done
    printf 'error the processes of the host cannot be listed: see whether awk works there\n'
    exit 1
}

# young: print each process that started after the job: p PID PARENT GROUP SESSION BEGAN NAME; and its marks: m PID ID.
young() {
    if [ ! "$proc" ]; then
        TZ=UTC0 ps -A -o pid= -o ppid= -o pgid= -o state= -o lstart= -o comm= | awk -v own="$$" '
            $4 !~ /^Z/ && $1 != own && $2 != own {
                name = $10; sub(/.*\//, "", name)
                print "p", $1, $2, $3, $3, $6 "-" $7 "-" $8 "-" $9, name
            }'
        return
    fi
    read -r _ _ _ _ newest 2>/dev/null </proc/loadavg
    printf '%s\n' /proc/[0-9]* | awk -v since="$began" -v own="$$" -v by_entry="$by_entry" -v newest="${newest:-0}" '
        function examine(pid,    path, line, stat, name, field, others) {
            path = "/proc/" pid
            stat = ""
            while ((getline line < (path "/stat")) > 0) stat = stat " " line
            close(path "/stat")
            # The name stands in parentheses and may have any character, also line feeds and parentheses.
            if (!match(stat, /.*\)/)) return
            name = substr(stat, 1, RLENGTH - 1); sub(/^[^(]*\(/, "", name); gsub(/[^!-~]/, "?", name)
            split(substr(stat, RLENGTH + 2), field, " ")
            if (field[20] + 0 < since + 0 || (field[1] ~ /[ZX]/ && field[18] < 2)) return
            if (pid == own || field[2] == own) return
            print "p", pid, field[2], field[3], field[4], field[20], name
            if (!by_entry) return
            marks(pid, path "/environ")
            if (field[1] !~ /[ZX]/) return
            # The main thread has ended, and only the other threads show the environment.
            others = "ls -d " path "/task/*/environ 2>/dev/null"
            while ((others | getline line) > 0) marks(pid, line)
            close(others)
        }
        function marks(pid, file,    line) {
            RS = "\0"
            while ((getline line < file) > 0)
                if (line ~ /^ANYSHELL_JOB_[0-9a-f]*=/) print "m", pid, substr(line, 14, index(line, "=") - 14)
            close(file)
            RS = "\n"
        }
        { examine(substr($0, 7)) }
        # A chain of processes that fork and end is never in the list: the listed process has ended, and its child came later.
        # So the newest processes are examined until no newer one appears, at most eight times.
        END {
            for (turn = 0; turn < 8; turn++) {
                if ((getline line < "/proc/loadavg") <= 0) exit
                close("/proc/loadavg")
                split(line, load, " ")
                if (load[5] == newest) exit
                for (pid = (load[5] - newest > 64 ? load[5] - 64 : newest + 1); pid <= load[5]; pid++) examine(pid)
                newest = load[5]
            }
        }' || return
    if [ "$by_entry" ]; then return; fi
    # Sixteen environments at once are searched for any mark, since a search of each alone would start two programs for each.
    # shellcheck disable=SC2016
    environments | xargs -n 16 sh -c '
        cat "$@" | tr "\n\0" "?\n" | grep -q ANYSHELL_JOB_ || exit 0
        for each; do tr "\n\0" "?\n" <"$each" | sed -n "s|^ANYSHELL_JOB_\([0-9a-f]*\)=.*|$each \1|p"; done
    ' sh | sed 's|^/proc/\([0-9]*\)/[^ ]*|m \1|'
}

# environments: print the paths of the environments of all processes. After the end of the main thread, only the other threads
# show the environment.
environments() {
    printf '%s\n' /proc/[0-9]*/environ
    printf '%s\n' /proc/[0-9]*/stat | xargs grep -l ') [ZX] ' 2>/dev/null | while IFS= read -r each; do
        printf '%s\n' "${each%/stat}"/task/*/environ
    done
}

# members ID: print the listed processes of a job: PID GROUP BEGAN NAME. A process is a member by its mark, by descent from a
# member, or as a member of an earlier look (the lines of the file "seen"). While the first process of the job lives, its pid
# names no other process, so the processes of its session are members too.
members() {
    {
        printf '%s\n' "$listed"
        if is_file "$job/seen"; then sed 's/^/s /' "$job/seen" 2>/dev/null; fi
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
    if [ "$foreign" ]; then
        printf 'error job %s was started on another machine, or in another container: stop it there\n' "$2"
        exit 1
    fi
    # After another boot, the pid belongs to another process, if to any.
    [ "$here" ] || return
    list_young
    found=$(members "$2")
    if [ "$found" ]; then signal_found "$1"; fi
    if [ "$1" = KILL ]; then chase "$2"; fi
}

# signal_found NAME: signal the processes in $found, and print them
signal_found() {
    # Write "seen" before any member ends: afterwards, a member by session or by descent alone could not be found again.
    if ! { printf '%s\n' "$found" >"$job/seen.$$" && mv -f "$job/seen.$$" "$job/seen"; } 2>/dev/null &&
        [ "$1" != KILL ]; then
        printf 'error %s cannot be written to: make room, or stop the job with a grace of 0\n' "$job"
        exit 1
    fi
    if [ "$1" != 0 ] && [ "$state" = running ] && [ ! -e "$job/stopped" ]; then
        # A failing redirection of `:` would end this shell before the signal.
        { true >"$job/stopped"; } 2>/dev/null
    fi
    # Signal the whole group at once: a shell whose child ends first would go on with its next command.
    if [ "$leads" ] && is_alive "$pid" "$began"; then send "$1" "-$pid"; fi
    printf '%s\n' "$found" | while read -r each group since name; do
        # Ask each process only once: a program may act on each request.
        if [ "$1" = KILL ] || [ ! "$leads" ] || [ "$group" != "$pid" ]; then
            is_alive "$each" "$since" && send "$1" "$each"
        fi
        printf 'process %s %s %s\n' "$each" "$since" "$name"
    done
}

send() {
    [ "$1" != 0 ] || return
    kill -s "$1" $end "$2" 2>/dev/null
    # A stopped process acts on no other signal.
    [ "$1" = KILL ] || kill -s CONT $end "$2" 2>/dev/null
}

# chase ID: kill the processes with the mark of a job among the newest processes, as soon as they appear, and print them. A chain
# of processes, each of which forks the next one and ends, is too fast for a list. The chain ends with its last process.
chase() {
    [ "$proc" ] || return
    if [ ! "$by_entry" ]; then
        # Reading many environments at once shows whether one has the mark, but not which. Pids beyond the newest are tried too.
        read -r _ _ _ _ each 2>/dev/null </proc/loadavg || return
        set -- "$1" "$((each - 16))" "$((each + 48))"
        files=
        while [ "$2" -lt "$3" ]; do files="$files /proc/$2/environ" && set -- "$1" $(($2 + 1)) "$3"; done
        if cat $files 2>/dev/null | tr '\n\0' '?\n' | grep -q "^ANYSHELL_JOB_$1="; then echo 'process 0 0 unknown'; fi
        return
    fi
    awk -v mark="^ANYSHELL_JOB_$1=" '
        BEGIN {
            for (turn = 0; turn < 300 && quiet < 25; turn++) {
                if ((getline line < "/proc/loadavg") <= 0) exit
                close("/proc/loadavg")
                split(line, load, " ")
                quiet++
                for (pid = load[5]; pid > load[5] - 16 && pid > 1; pid--) {
                    path = "/proc/" pid
                    hit = 0
                    RS = "\0"
                    while (!hit && (getline line < (path "/environ")) > 0) hit = line ~ mark
                    close(path "/environ")
                    RS = "\n"
                    if (!hit) continue
                    quiet = 0
                    print pid
                    fflush()
                }
            }
        }' | while read -r each; do
        kill -s KILL "$each" 2>/dev/null && printf 'process %s 0 unknown\n' "$each"
    done
}

# is_seen_alive: whether a member of an earlier look is alive.
is_seen_alive() {
    is_file "$job/seen" || return 1
    while read -r each_seen _ since _; do
        if is_alive "$each_seen" "$since"; then return 0; fi
    done <"$job/seen"
    return 1
}

remove() {
    began=0
    list_young
    living=$(printf '%s\n' "$listed" | sed -n 's/^m //p')
    for each; do
        is_job "$each" || continue
        if inspect "$each"; then
            [ "$state" != running ] && [ ! "$foreign" ] || continue
            # Without the record, the remaining processes of the job could not be stopped.
            case $living in *" $each"*) continue ;; esac
            if [ "$here" ] && is_seen_alive; then continue; fi
        # A directory without a record: the job is about to start, or was killed during its start.
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
*) printf 'error %s is not an absolute path\n' "$jobs"; exit 1 ;;
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
