# A shell on the host that is asked about processes and told to signal them. POSIX sh; run by dash, bash, busybox.
#
# It reads one request a line, each with a number, says at once that it has it ("$token +"), and answers with lines, the
# last of which is "$token", the number, the host's clock, and the host and pid namespace where the watcher is. Every
# argument is a number, a name of a signal, such a place, or a process as PID:STARTED.
#
# Here is what a command needs that makes no trouble, and the stop of commands whose connection has ended. The rest,
# `looks.sh`, is loaded when it is needed: most hosts of a fleet never need it.
#
# Looking takes other programs. When the user has no process left to start one, the shell that looks is ended by that.
# A second one waits for it, says so ("$token !"), and goes on answering what it can answer by itself.
#
# Nothing here is a secret, and nothing comes from a command's text. $token, $mark, $server_seconds and $grace_seconds are set
# before it. Lines of comments and blanks at the beginning of a line are not sent (`text_of` of `watcher.py`).

# shellcheck shell=sh disable=SC2086,SC2046,SC2154  # word splitting is how a list of numbers is passed on

LC_ALL=C
export LC_ALL
set -f
second= held=

# The /proc of another pid namespace names strangers.
proc= place=
if read -r self _ 2>/dev/null </proc"${ANYSHELL_NO_PROC-}"/self/stat && [ "$self" = $$ ]; then
    proc=1
    # The same on the same host and in the same pid namespace alone. What starts a command says the same of it (login.py).
    read -r place 2>/dev/null </proc/sys/kernel/random/boot_id
    inode=
    { read -r _; read -r _; read -r _; read -r _ inode; } 2>/dev/null 3</proc/self/ns/pid </proc/self/fdinfo/3
    if [ "$inode" ]; then place="${place}pid:[$inode]"; else place=$place$(readlink /proc/self/ns/pid 2>/dev/null); fi
fi

# dash takes a group for an option without "--", and busybox's ash takes "--" for a process.
if kill -s 0 -- $$ 2>/dev/null; then end=--; else end=; fi

clock() {
    if [ "$proc" ]; then read -r now _ </proc/uptime; else now=$(date +%s); fi
}

# sample: what tells pids that are given later from those before, as long as they have not all been given once more:
#   at PLACE NEWEST FORKS     the pid that was given last, and how many processes were ever started on the host
sample() {
    [ "$proc" ] || return
    read -r _ _ _ _ newest </proc/loadavg
    forks=
    while read -r name forks _; do [ "$name" = processes ] && break; done </proc/stat
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

# hit NAME[+NAME] [-]PID: send it one signal, or two
hit() {
    case $1 in *+*) kill -s "${1%+*}" $end "$2" 2>/dev/null ;; esac
    kill -s "${1#*+}" $end "$2" 2>/dev/null
    # What is stopped acts on no other signal.
    [ "$1" = KILL ] || kill -s CONT $end "$2" 2>/dev/null
}

# sweep NAME[+NAME] SINCE TAG LEADER [PLACE]: signal what has that tag, or is in that group or session if it is at that place,
# and say what it is, as look does. NAME may be 0. Nothing but the shell itself is needed for it, and it takes several
# times as long.
sweep() {
    [ "$proc" ] || return
    name=$1 since=$2 tag=$3 leader=$4
    # At another place the number is a stranger's.
    [ "${5-}" = "$place" ] || leader=none
    set +f
    for path in /proc/[0-9]*; do
        set -f
        pid=${path#/proc/}
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"$path/stat"
        set -- ${stat##*) }
        [ "${20:-0}" -ge "$since" ] || continue
        case $1${18} in Z[01] | X*) continue ;; esac
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

# hold PID TAG: remember a command that runs, by its leader, and forget those that have ended. This is not answered.
hold() {
    [ "$proc" ] && has_tag "$1" "$2" && parent "$1" && started "$1" || return
    known=$held held="$1:$2:$began:$above"
    for each in $known; do [ -d "/proc/${each%%:*}" ] && held="$held $each"; done
}

# parent PID: $above, unless it has ended, though its end was not asked for
parent() {
    stat=
    while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
    set -- ${stat##*) }
    above=$2
    case $1 in '' | [ZX]*) return 1 ;; esac
}

# over: when the requests have ended, stop what is held and has lost its server: the connection has ended, and what asked for
# the command with it, or the command is lost to it. While the connection is there, the server is the parent of a leader.
over() {
    known=$held held=
    for each in $known; do [ -d "/proc/${each%%:*}" ] && held="$held $each"; done
    [ "$held" ] || return
    sleep $server_seconds
    lost=
    for each in $held; do
        pid=${each%%:*} rest=${each#*:*:}
        parent "$pid" && started "$pid" && [ "$began" = "${rest%:*}" ] && [ "$above" != "${rest#*:}" ] && lost="$lost $each"
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

has_tag() {
    while read -r line; do
        case $line in 'Max file locks'*) set -- "$1" "$2" $line; [ "$6" = "$2" ]; return ;; esac
    done 2>/dev/null <"/proc/$1/limits"
    return 1
}

answer() {
    clock
    printf '%s %s %s %s\n' "$token" "${number:-0}" "$now" "$place"
}

# load: read the rest, up to a line with a dot alone, by nothing but the shell itself. This is not answered.
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

# serve VERB ARGUMENT...: answer what is not answered below; `looks.sh` has it.
serve() { :; }

# unable: what the second shell does not try
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
        # Whether any process is in a process group.
        group) if kill -s 0 $end "-$1" 2>/dev/null; then echo some; else echo none; fi ;;
        sweep) sweep "$@" ;;
        ping) sample ;;
        *) serve "$verb" "$@" ;;
        esac
        answer
    done
}

# The first of these looks. The second waits for its end, which is that of the requests, if all is well.
both() {
    exec 3<&0 4>&1
    # An answer that has no reader must not end it: what was held is over then.
    { trap : PIPE; watch <&3 >&4; over >/dev/null 2>&1 3<&- 4>&-; echo over; } | {
        read -r _ && exit
        second=1
        printf '%s !\n' "$token" >&4
        unable
        watch <&3 >&4
    }
}
