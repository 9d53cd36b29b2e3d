# The watcher: a shell on the host that reports on processes and signals them. POSIX sh; run by dash, bash, busybox.
#
# Each line of stdin is one request and begins with a number. The watcher first confirms most requests ("$token +"). The
# answer is lines, the last of which has "$token", the number, the host's clock, and the watcher's place: the host and the
# pid namespace. Every argument is a number, the name of a signal, a place, or a process as PID:STARTED.
#
# This text has the functions for a command that ends without trouble, and the stop of commands whose connection has
# ended. `looks.sh` has the other functions, and is loaded when needed: most hosts of a fleet never need `looks.sh`.
#
# A look needs other programs. When the user has no process left to start a program, the shell that looks ends. A second
# shell waits for that end, reports it ("$token !"), and answers the requests that need no other program.
#
# This text has no secrets, and no part of a command's text. $token, $mark, $server_seconds and $grace_seconds are set before
# this text. Comment lines and indentation are not sent (`text_of` of `watcher.py`).

# shellcheck shell=sh disable=SC2086,SC2046,SC2154  # word splitting is how a list of numbers is passed on

LC_ALL=C
export LC_ALL
# The user's startup file may have set these variables, by which ls writes other fields.
unset TIME_STYLE QUOTING_STYLE
set -f
second= held=

# In the /proc of another pid namespace, the same pid is another process.
proc= place=
if read -r self _ 2>/dev/null </proc"${ANYSHELL_NO_PROC-}"/self/stat && [ "$self" = $$ ]; then
    proc=1
    # The place is equal only on the same host and in the same pid namespace. A command's start reports the command's place
    # too (`_WHERE` of `login.py`).
    read -r place 2>/dev/null </proc/sys/kernel/random/boot_id
    inode=
    { read -r _; read -r _; read -r _; read -r _ inode; } 2>/dev/null 3</proc/self/ns/pid </proc/self/fdinfo/3
    if [ "$inode" ]; then place="${place}pid:[$inode]"; else place=$place$(readlink /proc/self/ns/pid 2>/dev/null); fi
fi

# $loads: whether /proc/loadavg has the last pid of this namespace. In a container it may not: lxcfs shows the last pid of its own
# host, and gVisor shows 0. A shell that has just been started has a pid that is the last one, or a few before.
loads=
if [ "$proc" ]; then
    loads=$(
        exec 2>/dev/null
        read -r own _ </proc/self/stat
        read -r _ _ _ _ newest </proc"${ANYSHELL_NO_LOAD-}"/loadavg
        [ "$newest" -ge "$own" ] && [ $((newest - own)) -le 1000 ] && echo 1
    )
fi

# Without "--", dash takes the number of a process group for an option; busybox's ash takes "--" for a process.
if kill -s 0 -- $$ 2>/dev/null; then end=--; else end=; fi

clock() {
    if [ "$proc" ]; then read -r now _ </proc/uptime; else now=$(date +%s); fi
}

# sample: print the values that tell later pids from earlier pids, until all pids have been given once more:
#   at PLACE NEWEST FORKS     the pid that was given last, and the number of processes ever started on the host
sample() {
    [ "$proc" ] || return
    newest=0 forks=0
    if [ "$loads" ]; then
        read -r _ _ _ _ newest </proc/loadavg
        while read -r name forks _; do [ "$name" = processes ] && break; done </proc/stat
    fi
    printf 'at %s %s %s\n' "$place" "${newest:-0}" "${forks:-0}"
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

# hit NAME[+NAME] [-]PID: send one signal, or two, to a process or a process group
hit() {
    case $1 in *+*) kill -s "${1%+*}" $end "$2" 2>/dev/null ;; esac
    kill -s "${1#*+}" $end "$2" 2>/dev/null
    # A stopped process acts on no other signal.
    [ "$1" = KILL ] || kill -s CONT $end "$2" 2>/dev/null
}

# sweep NAME[+NAME] SINCE TAG LEADER [PLACE [SHELL]]: signal the processes with the tag, and list these processes as look does.
# If the watcher is at PLACE, the processes of the leader's group and session are included. NAME 0 sends no signal. SHELL, the
# shell of a session, has the tag of its command and is left out. A sweep starts no other program, and takes several times as
# long as a look.
sweep() {
    [ "$proc" ] || return
    name=$1 since=$2 tag=$3 leader=$4 spared=${6-}
    # At another place, the leader's pid is another process's.
    [ "${5-}" = "$place" ] || leader=none
    set +f
    for path in /proc/[0-9]*; do
        set -f
        pid=${path#/proc/}
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"$path/stat"
        set -- ${stat##*) }
        [ "${20:-0}" -ge "$since" ] && [ "$pid" != "$spared" ] || continue
        case $1${18} in Z[01] | X*) continue ;; esac
        began=${20} parent=$2 group=$3 session=$4
        limit "$pid"
        locks=${locks:-unlimited}
        [ "$locks" = "$tag" ] || [ "$group" = "$leader" ] || [ "$session" = "$leader" ] || continue
        stat=${stat#*(}
        [ "$name" = 0 ] || hit "$name" "$pid"
        printf 'process %s %s %s %s %s %s %s\n' "$pid" "$parent" "$group" "$session" "$began" "$locks" "${stat%%)*}"
    done
    set -f
}

# hold PID TAG: remember a running command by its leader ($held has PID:TAG:BEGAN:PARENT), and forget the ended commands. This
# request has no answer.
hold() {
    [ "$proc" ] || return
    limit "$1"
    is_part "$2" && parent "$1" && started "$1" || return
    known=$held held="$1:$2:$began:$above"
    for each in $known; do [ -d "/proc/${each%%:*}" ] && held="$held $each"; done
}

# parent PID: set $above to the parent of a process; fail if the process has ended, even if it is not reaped yet
parent() {
    stat=
    while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
    set -- ${stat##*) }
    above=$2
    case $1 in '' | [ZX]*) return 1 ;; esac
}

# over: after the last request, stop the held commands that have lost their server process. The connection of such a command
# has ended; the program that asked for the command has ended too, or can no longer reach the command. As long as the
# connection exists, the server process is the parent of the leader. The loss of the connection can end the leader itself, by
# SIGPIPE: then only the tag tells what it has started.
over() {
    known=$held held=
    for each in $known; do
        pid=${each%%:*} rest=${each#*:}
        [ -d "/proc/$pid" ] || continue
        tag=${rest%%:*}
        limit "$pid"
        is_part "$tag" && tag=$locks
        held="$held $pid:$tag:${rest#*:}"
    done
    [ "$held" ] || return
    sleep $server_seconds
    lost=
    for each in $held; do
        pid=${each%%:*} rest=${each#*:*:}
        if parent "$pid" && started "$pid" && [ "$began" = "${rest%:*}" ]; then
            [ "$above" != "${rest#*:}" ] && lost="$lost $each"
        elif [ ! -d "/proc/${rest#*:}" ]; then
            lost="$lost none:${each#*:}"
        fi
    done
    for name in TERM KILL KILL; do
        for each in $lost; do
            rest=${each#*:} pid=${each%%:*}
            tag=${rest%%:*} rest=${rest#*:}
            sweep $name "${rest%:*}" "$tag" "$pid" "$place"
        done
        [ "$lost" ] && [ $name = TERM ] && sleep $grace_seconds
    done
}

# limit PID: set $locks to the limit on file locks of a process, which is its tag
limit() {
    locks=
    while read -r line; do
        case $line in 'Max file locks'*) set -- $line; locks=$4; break ;; esac
    done 2>/dev/null <"/proc/$1/limits"
}

has_tag() {
    limit "$1"
    [ "$locks" = "$2" ]
}

# is_part TAG: whether $locks is TAG, or the tag of a command in the session with that TAG, as `Tag.marks` tells
is_part() {
    case $locks in "$1") return 0 ;; '' | *[!0-9]*) return 1 ;; esac
    [ $(($1 & 2147483647)) = 0 ] && [ $((locks >> 31)) = $(($1 >> 31)) ]
}

answer() {
    clock
    printf '%s %s %s %s\n' "$token" "${number:-0}" "$now" "$place"
}

# has_process GROUP: whether a process group has any process. A group with processes of other users alone cannot be signalled;
# the error tells it from a group without processes.
has_process() {
    kill -s 0 $end "-$1" 2>/dev/null && return
    [ ! "$second" ] || return 1
    # Mostly neither the leader nor a later process lives, and no shell has to be started for the error.
    if [ "$loads" ] && [ -d /proc/1 ]; then
        read -r _ _ _ _ newest </proc/loadavg
        pid=$(($1 - 1))
        [ $((newest - pid)) -le 200 ] &&
            while [ "$pid" -lt "$newest" ] && [ ! -d "/proc/$((pid + 1))" ]; do pid=$((pid + 1)); done
        [ "$pid" = "$newest" ] && return 1
    fi
    case $(kill -s 0 $end "-$1" 2>&1) in *'not permitted'*) return 0 ;; esac
    return 1
}

# load: read the other functions, up to a line with only a dot, without another program. This request has no answer.
load() {
    text=
    while IFS= read -r line; do
        if [ "$line" = . ]; then
            eval "$text"
            [ "$second" ] && unable
            return
        fi
        text="$text$line
"
    done
}

# serve VERB ARGUMENT...: answer the requests that `watch` does not answer itself; `looks.sh` replaces this function.
serve() { :; }

# unable: replace the functions that need other programs, which the second shell does not try
unable() {
    look() { echo failed; }
    lead() { :; }
    chase() { :; }
    input() { :; }
    litter() { echo failed; }
    modes() { echo failed; }
    foreground() { echo failed; }
}

watch() {
    while read -r number verb arguments; do
        set -- $arguments
        case $verb in
        hold) hold "$@"; continue ;;
        load) load; continue ;;
        esac
        [ "$verb" = group ] || printf '%s +\n' "$token"
        case $verb in
        # Report whether a process group has any process.
        group) if has_process "$1"; then echo some; else echo none; fi ;;
        sweep) sweep "$@" ;;
        ping) sample ;;
        *) serve "$verb" "$@" ;;
        esac
        answer
    done
}

# both: run the two shells. The first shell looks. The second shell waits for the end of the first, which comes after the last
# request, unless the first shell fails.
both() {
    exec 3<&0 4>&1
    # An answer without a reader must not end the first shell (SIGPIPE): the held commands are then stopped by `over`.
    { trap : PIPE; watch <&3 >&4; over >/dev/null 2>&1 3<&- 4>&-; echo over; } | {
        read -r _ && exit
        second=1
        printf '%s !\n' "$token" >&4
        unable
        watch <&3 >&4
    }
}
