# A shell on the host that is asked about processes and told to signal them. POSIX sh; run by dash, bash, busybox.
#
# It reads one request a line, each with a number, says at once that it has it ("$token +"), and answers with lines, the
# last of which is "$token", the number and the host's clock. Every argument is a number, a name of a signal, or a
# process as PID:STARTED.
#
# Looking takes other programs. When the user has no process left to start one, the shell that looks is ended by that.
# A second one waits for it, says so ("$token !"), and goes on answering what it can answer by itself.
#
# Nothing here is a secret, and nothing comes from a command's text. $token and $mark are set before it.

# shellcheck shell=sh disable=SC2086,SC2046,SC2154  # word splitting is how a list of numbers is passed on

LC_ALL=C
export LC_ALL
set -f

if [ -r /proc/self/stat ] && [ "${ANYSHELL_NO_PROC-}" != 1 ]; then proc=1; else proc=; fi
# busybox's grep stops at a NUL byte, and a process's environment is full of them.
if printf 'a\0b' | grep -q b 2>/dev/null; then grep_sees_all=1; else grep_sees_all=; fi

# busybox's ls shows no control characters anyway, and does not know how to be told.
if ls -q / >/dev/null 2>&1; then list='ls -lnq'; else list='ls -ln'; fi

# dash takes a group for an option without "--", and busybox's ash takes "--" for a process.
if kill -s 0 -- $$ 2>/dev/null; then end=--; else end=; fi

clock() {
    if [ "$proc" ]; then read -r now _ </proc/uptime; else now=$(date +%s); fi
}

# look SINCE FD: each process that started then or later, in clock ticks since boot:
#   process PID PARENT GROUP SESSION STARTED LOCKS NAME    LOCKS is the soft limit on file locks
#   mark PID NAME                                          it has a variable of ours, and has another limit
#   holds PID DESCRIPTOR WHAT                              what it has at descriptors 1, 2 and FD: a pipe, a socket, a
#                                                          terminal, or one that is gone: /dev/pts/0(deleted)
look() {
    [ "$proc" ] || { look_ps; return; }
    set +f
    read -r _ _ _ _ newest </proc/loadavg
    found=$(
        printf '%s\n' /proc/[0-9]* | awk -v since="$1" -v own="$$" -v newest="${newest:-0}" '
            function examine(pid,    path, line, stat, name, field, locks, limit) {
                path = "/proc/" pid
                stat = ""
                while ((getline line < (path "/stat")) > 0) stat = stat " " line
                close(path "/stat")
                # The name, in parentheses, may hold anything, line feeds and parentheses too.
                if (!match(stat, /.*\)/)) return
                name = substr(stat, 1, RLENGTH - 1); sub(/^[^(]*\(/, "", name); gsub(/[^ -~]/, "?", name)
                split(substr(stat, RLENGTH + 2), field, " ")
                if (field[20] < since + 0 || field[1] == "Z" || field[1] == "X") return
                if (pid == own || field[2] == own) return
                locks = "unlimited"
                while ((getline line < (path "/limits")) > 0)
                    if (line ~ /^Max file locks/) { split(line, limit, " "); locks = limit[4] }
                close(path "/limits")
                print "process", pid, field[2], field[3], field[4], field[20], locks, name
            }
            { examine(substr($0, 7)) }
            # Who forks and ends all the time is gone before it is looked at, and what it forked was not listed. So the
            # newest are looked at, until there are no newer ones.
            END {
                for (turn = 0; turn < 8; turn++) {
                    getline line < "/proc/loadavg"
                    close("/proc/loadavg")
                    split(line, load, " ")
                    if (load[5] == newest) exit
                    for (pid = (load[5] - newest > 64 ? load[5] - 64 : newest + 1); pid <= load[5]; pid++) examine(pid)
                    newest = load[5]
                }
            }'
    )
    set -f
    [ "$found" ] || return
    printf '%s\n' "$found"
    pids=$(printf '%s\n' "$found" | while read -r _ pid _; do printf '%s ' "$pid"; done)
    untagged=$(printf '%s\n' "$found" | while read -r _ pid _ _ _ _ locks _; do
        # A tag is a number of ten digits at least: whoever has one needs no mark to be known by.
        case $locks in [0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]*) ;; *) printf '%s ' "$pid" ;; esac
    done)
    for pid in $(marked $untagged); do
        tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n "s/^\\(${mark}[0-9a-z_]*\\)=.*/mark $pid \\1/p"
    done
    links=
    for pid in $pids; do links="$links /proc/$pid/fd/1 /proc/$pid/fd/2 /proc/$pid/fd/$2"; done
    # What a descriptor leads to may be a file whose name looks like any line, or part of one, that its owner likes. So
    # each field must be where it belongs, and a name with spaces is nothing that is sought.
    $list $links 2>/dev/null | awk '
        $10 != "->" || $9 !~ /^\/proc\/[0-9]+\/fd\/[0-9]+$/ { next }
        { split($9, part, "/") }
        NF == 11 && $11 ~ /^([a-z]+:\[|\/dev\/pts\/[0-9]+$)/ { print "holds", part[3], part[5], $11 }
        NF == 12 && $11 ~ /^\/dev\/pts\/[0-9]+$/ && $12 == "(deleted)" { print "holds", part[3], part[5], $11 $12 }'
}

# marked PID...: those that have a variable of ours, or may have one
marked() {
    [ $# -gt 0 ] || return
    if [ "$grep_sees_all" ]; then
        for pid; do printf '/proc/%s/environ\n' "$pid"; done | xargs grep -lF -- "$mark" 2>/dev/null | tr -dc '0-9\n'
        return
    fi
    for pid; do
        tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -q "^$mark" && printf '%s\n' "$pid"
    done
}

# The same where there is no /proc: no limits and no variables of others can be read there.
look_ps() {
    TZ=UTC0 ps -A -o pid= -o ppid= -o pgid= -o state= -o lstart= -o comm= | awk -v own="$$" '
        $4 !~ /^Z/ && $1 != own && $2 != own {
            name = $10; sub(/.*\//, "", name)
            print "process", $1, $2, $3, 0, $6 "-" $7 "-" $8 "-" $9, "unlimited", name
        }'
}

started() {
    if [ "$proc" ]; then
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
        [ "$stat" ] || return 1
        set -- ${stat##*) }
        began=${20}
    else
        set -- $(TZ=UTC0 ps -o lstart= -p "$1")
        [ $# -eq 5 ] || return 1
        began=$2-$3-$4-$5
    fi
}

# hit NAME[+NAME] [-]PID: send it one signal, or two
hit() {
    case $1 in *+*) kill -s "${1%+*}" $end "$2" 2>/dev/null ;; esac
    kill -s "${1#*+}" $end "$2" 2>/dev/null
    # What is stopped acts on no other signal.
    [ "$1" = KILL ] || kill -s CONT $end "$2" 2>/dev/null
}

# signal NAME[+NAME] [-PID:STARTED] PID:STARTED...: with a minus it is the whole group of that process
signal() {
    name=$1
    shift
    for each; do
        pid=${each%%:*}
        started "${pid#-}" && [ "$began" = "${each#*:}" ] || continue
        hit "$name" "$pid"
    done
}

# sweep NAME[+NAME] SINCE TAG LEADER: signal what has that tag, or is in that group or session, and say what it is, as look
# does. NAME may be 0. Nothing but the shell itself is needed for it, and it takes several times as long.
sweep() {
    [ "$proc" ] || return
    name=$1 since=$2 tag=$3 leader=$4
    set +f
    for path in /proc/[0-9]*; do
        set -f
        pid=${path#/proc/}
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"$path/stat"
        set -- ${stat##*) }
        [ "${20:-0}" -ge "$since" ] || continue
        case $1 in Z | X) continue ;; esac
        began=${20} parent=$2 group=$3 session=$4
        locks=unlimited
        while read -r line; do
            case $line in 'Max file locks'*) set -- $line; locks=$4; break ;; esac
        done 2>/dev/null <"$path/limits"
        [ "$locks" = "$tag" ] || [ "$group" = "$leader" ] || [ "$session" = "$leader" ] || continue
        stat=${stat#*(}
        [ "$name" = 0 ] || hit "$name" "$pid"
        printf 'process %s %s %s %s %s %s %s\n' "$pid" "$parent" "$group" "$session" "$began" "$locks" "${stat%%)*}"
    done
    set -f
}

# newer FIRST TAG SHELL GROUP: whether somebody with that tag, in that group, was given a pid after FIRST. Where the shell
# itself has not got the tag, or there are too many to look at, nobody can tell.
newer() {
    [ "$proc" ] || { echo some; return; }
    read -r _ _ _ _ newest </proc/loadavg
    [ "$newest" -ge "$1" ] && [ $((newest - $1)) -le 200 ] &&
        { [ ! -d "/proc/$3" ] || has_tag "$3" "$2"; } || { echo some; return; }
    pid=$1
    while [ "$pid" -lt "$newest" ]; do
        pid=$((pid + 1))
        if [ "$pid" != "$3" ] && has_tag "$pid" "$2" && in_group "$pid" "$4"; then echo some; return; fi
    done
    echo none
}

in_group() {
    stat=
    while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
    set -- "$2" ${stat##*) }
    [ "$4" = "$1" ]
}

has_tag() {
    while read -r line; do
        case $line in 'Max file locks'*) set -- "$1" "$2" $line; [ "$6" = "$2" ]; return ;; esac
    done 2>/dev/null <"/proc/$1/limits"
    return 1
}

# terminal PID: $tty, its controlling terminal, and $front, the process group that is in the foreground there
terminal() {
    tty='' front=''
    if [ "$proc" ]; then
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
        set -- ${stat##*) }
        # Linux counts them by majors 136 to 143.
        case $((${5:-0} >> 8 & 4095)) in 13[6-9] | 14[0-3]) ;; *) return 1 ;; esac
        tty=/dev/pts/$(((($5 >> 8 & 4095) - 136) * 1048576 + ($5 >> 12 & 1048320) + ($5 & 255)))
        front=$6
    else
        set -- $(ps -o tty= -o tpgid= -p "$1")
        [ $# -eq 2 ] || return 1
        tty=/dev/$1 front=$2
    fi
    [ -c "$tty" ]
}

# modes PID: the settings of its terminal, as stty writes them
modes() {
    terminal "$1" && settings
}

settings() {
    printf 'modes %s\n' "$(stty -a 2>/dev/null <"$tty" | tr '\n' ' ')"
}

# foreground PID MOST: who is in the foreground of its terminal, at most so many of them, and of their threads:
#   member PID STARTED CPU NAME     CPU is the time that it used, in the unit of STARTED
#   name PID NAME                   once more, after all else
#   child PID                       of one of these, which has left the terminal's session
#   has PID DESCRIPTOR              that is the terminal
#   thread PID WHERE CALL...        where in the kernel a thread of it is, and in which system call; 0 if not known
#   asleep PID                      it sleeps
#   stopped PID                     it is stopped, and reads nothing
#   hidden PID                      more is not shown to us
# and the settings of the terminal: who is found to wait has set them already.
foreground() {
    terminal "$1" || return
    [ "$front" -gt 0 ] && { if [ "$proc" ]; then look_front "$2"; else look_front_ps "$2"; fi; }
    settings
}

look_front() {
    most=$1
    set +f
    found=$(
        printf '%s\n' /proc/[0-9]* | awk -v group="$front" -v most="$most" '
            {
                stat = ""
                while ((getline line < ($0 "/stat")) > 0) stat = stat " " line
                close($0 "/stat")
                if (!match(stat, /.*\)/)) next
                name = substr(stat, 1, RLENGTH - 1); sub(/^[^(]*\(/, "", name); gsub(/[^ -~]/, "?", name)
                split(substr(stat, RLENGTH + 2), field, " ")
                if (field[1] == "Z" || field[1] == "X") next
                pid = substr($0, 7)
                if (field[3] == group) {
                    if (count++ >= most) next
                    print "member", pid, field[20], field[12] + field[13], name
                    session[pid] = field[4]
                    if (field[1] == "S") print "asleep", pid
                    if (field[1] ~ /[Tt]/) print "stopped", pid
                } else { parent[pid] = field[2]; others[pid] = field[4] }
            }
            END {
                for (pid in parent)
                    if (parent[pid] in session && session[parent[pid]] != others[pid] && count++ < most) print "child", pid
            }'
    )
    [ "$found" ] || { set -f; return; }
    printf '%s\n' "$found"
    folders=
    for pid in $(printf '%s\n' "$found" | while read -r kind each _; do
        [ "$kind" = asleep ] || [ "$kind" = stopped ] || printf '%s ' "$each"
    done); do
        # Who has ended meanwhile hides nothing.
        [ -r "/proc/$pid/fd" ] || { [ -d "/proc/$pid" ] && printf 'hidden %s\n' "$pid"; continue; }
        folders="$folders /proc/$pid/fd"
        count=0
        for task in /proc/$pid/task/*; do
            [ $((count += 1)) -le "$most" ] || break
            where=0 call=
            read -r where <"$task/wchan"
            read -r call <"$task/syscall"
            printf 'thread %s %s %s\n' "$pid" "${where:-0}" "$call"
        done 2>/dev/null
        # It may have become another program since it was listed.
        name= && read -r name 2>/dev/null <"/proc/$pid/comm" && printf 'name %s %s\n' "$pid" "$name"
    done
    set -f
    [ "$folders" ] || return
    # Of a single folder ls would not say which it is.
    $list /dev/null $folders 2>/dev/null | awk -v tty="$tty" '
        NF == 1 && /^\/proc\/[0-9]+\/fd:$/ { split($1, part, "/"); pid = part[3] }
        NF == 11 && $10 == "->" && ($11 == tty || $11 == "/dev/tty") { print "has", pid, $9 }'
}

# The same where there is no /proc.
look_front_ps() {
    TZ=UTC0 ps -A -o pid= -o pgid= -o state= -o lstart= -o time= -o comm= | awk -v group="$front" -v most="$1" '
        $2 == group && $3 !~ /^Z/ && count++ < most {
            parts = split($9, part, /[-:]/)
            seconds = part[parts] + 60 * part[parts - 1] + 3600 * part[parts - 2] + 86400 * part[parts - 3]
            name = $10; sub(/.*\//, "", name)
            print "member", $1, $5 "-" $6 "-" $7 "-" $8, seconds, name
        }'
}

# drop TOKEN...: kill the groups of processes in whose command lines one of these stands
drop() {
    [ "$proc" ] || return
    # The brackets keep a pattern from being found in the command line of what looks for it. grep takes one a line.
    patterns=
    for each; do patterns="$patterns${patterns:+
}[a]${each#a}"; done
    set +f
    for file in $(grep -l "$patterns" /proc/[0-9]*/cmdline 2>/dev/null); do
        pid=${file#/proc/}
        pid=${pid%/cmdline}
        kill -s KILL $end "-$pid" 2>/dev/null || kill -s KILL $end "$pid" 2>/dev/null
    done
    set -f
}

# chase TAG: kill what carries it among the newest processes, as soon as they come. A chain of processes that each
# fork the next and end is too fast to be listed first; it ends when its last link is killed.
chase() {
    [ "$proc" ] || return
    awk -v tag="$1" '
        BEGIN {
            for (turn = 0; turn < 300 && quiet < 25; turn++) {
                getline load < "/proc/loadavg"
                close("/proc/loadavg")
                split(load, field, " ")
                quiet++
                for (pid = field[5]; pid > field[5] - 16 && pid > 1; pid--) {
                    hit = 0
                    while ((getline line < ("/proc/" pid "/limits")) > 0)
                        if (line ~ /^Max file locks/) { split(line, limit, " "); hit = limit[4] == tag; break }
                    close("/proc/" pid "/limits")
                    if (hit) { quiet = 0; print pid; fflush() }
                }
            }
        }' | while read -r pid; do kill -s KILL "$pid" 2>/dev/null; done
}

# facts DIRECTORY PROGRAM... -- [KIND PATH ARGUMENT... ,]...: what the host is, and the first shell that answers.
# A word "," ends each shell; no argument is one.
facts() {
    # Nearly nothing has a line feed in it, and each program that is started makes reaching a host take longer.
    fact() {
        value=$2
        case $value in *"
"*) value=$(printf '%s' "$value" | tr '\n' ' ') ;; esac
        printf 'fact %s %s\n' "$1" "$value"
    }
    fact system "$(uname -s)"
    fact release "$(uname -r)"
    fact arch "$(uname -m)"
    fact hostname "$(uname -n)"
    fact user "$(id -un 2>/dev/null || id -u)"
    fact home "${HOME:-/}"
    entry=$(getent passwd "$(id -un)" 2>/dev/null)
    [ "$entry" ] && SHELL=${entry##*:}
    fact login "${SHELL-}"
    fact group "$(ps -o pgid= -p $$ 2>/dev/null | tr -dc 0-9)"
    fact pid "$$"
    fact ticks "$(getconf CLK_TCK 2>/dev/null || echo 100)"
    fact proc "$proc"
    if [ -r /etc/os-release ]; then
        fact name "$(. /etc/os-release; printf %s "${NAME-}")"
        fact version "$(. /etc/os-release; printf %s "${VERSION_ID-}")"
    elif [ "$(uname -s)" = Darwin ]; then
        fact name macOS
        fact version "$(sw_vers -productVersion 2>/dev/null)"
    fi
    if [ -e /.dockerenv ]; then fact container docker
    elif [ -e /run/.containerenv ]; then fact container podman
    else fact container "${container-}"; fi
    case $1 in
    '') ;;
    '~'|'~/'*) \cd -- "$HOME/${1#\~}" 2>/dev/null || fact wrong "$1" ;;
    *) \cd -- "$1" 2>/dev/null || fact wrong "$1" ;;
    esac
    fact directory "$PWD"
    shift
    while [ "$1" != -- ]; do
        path=$(command -v -- "$1" 2>/dev/null) && case $path in /*) fact program "$1 $path" ;; esac
        shift
    done
    shift
    unset BASH_ENV ENV
    while [ $# -gt 0 ]; do
        kind=$1 wanted=$2
        shift 2
        path=$(command -v -- "$wanted" 2>/dev/null)
        script=; limit=
        case $path in /*) ;; *) path= ;; esac
        command -v timeout >/dev/null 2>&1 && limit='timeout 5'
        answer=
        if [ "$path" ]; then answer=$(run_candidate "$@"); status=$?; fi
        while [ "$1" != , ]; do shift; done
        shift
        case $answer in
        'anyshell '*) fact kind "$kind"; fact shell "$path"; fact answer "${answer#anyshell }"; return ;;
        esac
        if [ ! "$path" ]; then fact tried "$wanted: not found"
        elif [ "$status" = 124 ]; then fact tried "$path: no answer within 5 s"
        else fact tried "$path: it runs, but does not answer as $kind does"; fi
    done
}

run_candidate() {
    # Everything up to the comma is its own.
    count=0
    for word; do [ "$word" = , ] && break; count=$((count + 1)); done
    case $count in
    1) $limit "$path" "$1" ;;
    2) $limit "$path" "$1" "$2" ;;
    3) $limit "$path" "$1" "$2" "$3" ;;
    4) $limit "$path" "$1" "$2" "$3" "$4" ;;
    *) $limit "$path" "$1" "$2" "$3" "$4" "$5" ;;
    esac </dev/null 2>/dev/null
}

answer() {
    clock
    printf '%s %s %s\n' "$token" "${number:-0}" "$now"
}

watch() {
    while read -r number verb arguments; do
        [ "$verb" = group ] || printf '%s +\n' "$token"
        set -- $arguments
        case $verb in
        # Whether anybody is in a process group.
        group) if kill -s 0 $end "-$1" 2>/dev/null; then echo some; else echo none; fi ;;
        signal) signal "$@" ;;
        sweep) sweep "$@" ;;
        look) look "$@" ;;
        chase) chase "$1" ;;
        newer) newer "$@" ;;
        drop) drop "$@" ;;
        modes) modes "$1" ;;
        foreground) foreground "$@" ;;
        ping) ;;
        esac
        answer
    done
}

# The first of these looks. The second waits for its end, which is that of the requests, if all is well.
both() {
    exec 3<&0 4>&1
    { watch <&3 >&4; echo over; } | {
        read -r _ && exit
        printf '%s !\n' "$token" >&4
        look() { echo failed; }
        chase() { :; }
        drop() { :; }
        modes() { echo failed; }
        foreground() { echo failed; }
        watch <&3 >&4
    }
}
