# The second part of the watcher on a host (`watcher.sh`), loaded when needed: it lists processes and signals them.

# shellcheck shell=sh disable=SC2086,SC2046,SC2154,SC2034  # word splitting is how a list of numbers is passed on

# tools: learn what the programs of the host can do. Called before their first use, by a shell that may start programs: a shell
# that cannot start a program any more ends here.
pid_max='' grep_sees_all='' list='ls -ln' asked=$second
tools() {
    [ "$asked" ] && return
    asked=1
    # dash reads byte by byte, and would get only the first digit of the file.
    [ "$proc" ] && pid_max=$(cat /proc/sys/kernel/pid_max 2>/dev/null)
    # busybox's grep stops at a NUL byte, and a process's environment is full of them.
    if printf 'a\0b' | grep -qF b 2>/dev/null; then grep_sees_all=1; fi
    # busybox's ls never shows control characters, and has no -q.
    if ls -q / >/dev/null 2>&1; then list='ls -lnq'; fi
}

serve() {
    case $1 in
    lead | look | foreground) tools; "$@" ;;
    signal | chase | litter | newer | input | inner | modes) "$@" ;;
    # at PLACE REQUEST: serve the request only if the watcher is at that place.
    at) case $place in "$2"*) shift 2; serve "$@" ;; esac ;;
    esac
}

# whole NAME ARG...: set $found to the output of a function; call the function again if it fails, and set $found to nothing after
# five failures. mawk exits with an error when a process ends between the open and the read of the process's file in /proc; the
# list is cut there (mawk 1.3.4 of Debian 12: 2 of 300 lists, beside loops of short programs).
whole() {
    for try in 1 2 3 4 5; do found=$("$@" 2>/dev/null) && return; done
    found=
}

# look SINCE FD PLACE NEWEST FORKS [TOKEN...]: print the processes that started at SINCE (clock ticks since boot) or later, and
# after the sample PLACE NEWEST FORKS. The sample saves time: on a host with thousands of processes, examining all of them takes
# half a second. A sample that is too old, or is of another place, is ignored. A new sample comes first.
#   looked                                                 the look has seen the watcher itself, so it is not blind
#   process PID PARENT GROUP SESSION STARTED LOCKS NAME    LOCKS is the soft limit on file locks
#   mark PID NAME                                          the process has the mark NAME, and no tag
#   begins PID TOKEN                                       the process has no tag, and TOKEN is in its command line
#   holds PID DESCRIPTOR WHAT                              the file at descriptor 1, 2 or FD: a pipe, a socket, a terminal,
#                                                          or a terminal that is gone: /dev/pts/0(deleted)
look() {
    [ "$proc" ] || { look_ps; return; }
    fd=$2
    whole list_young "$1" "$3" "$4" "$5"
    [ "$found" ] || return
    printf '%s\n' "$found"
    shift 5
    tokens=
    for each; do tokens="$tokens${tokens:+
}$each"; done
    count=0 environs='' lines='' links='' fields=$IFS
    IFS='
'
    set -- $found
    IFS=$fields
    for line; do
        set -- $line
        [ "$1" = process ] || continue
        # A tag is a number of ten digits at least: a process that has one needs no mark to be known by.
        case $7 in *[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]*) ;; *) environs="$environs /proc/$2/environ" ;; esac
        lines="$lines /proc/$2/cmdline"
        links="$links /proc/$2/fd/1 /proc/$2/fd/2 /proc/$2/fd/$fd"
        [ $((count += 1)) -lt 500 ] && continue
        look_further
        count=0 environs='' lines='' links=''
    done
    [ $count = 0 ] || look_further
}

# list_young SINCE PLACE NEWEST FORKS: print the lines "at", "looked" and "process" of look
list_young() {
    awk -v since="$1" -v own="$$" -v place="$place" -v there="$2" -v first="$3" -v before="$4" -v most="${pid_max:-0}" \
        -v loads="$loads" '
        function examine(pid,    path, line, stat, name, field, locks, limit) {
            path = "/proc/" pid
            stat = ""
            while ((getline line < (path "/stat")) > 0) stat = stat " " line
            close(path "/stat")
            # The name stands in parentheses and may have any character, also line feeds and parentheses.
            if (!match(stat, /.*\)/)) return
            name = substr(stat, 1, RLENGTH - 1); sub(/^[^(]*\(/, "", name); gsub(/[^ -~]/, "?", name)
            split(substr(stat, RLENGTH + 2), field, " ")
            if (pid == own) { print "looked"; return }
            # A zombie with more than one thread is alive: only its main thread has ended.
            if (field[20] < since + 0 || (field[1] == "Z" && field[18] < 2) || field[1] == "X") return
            # /proc/NUMBER also exists, unlisted, for each thread that is not a main thread; such a thread has no exit signal.
            if (field[2] == own || field[36] == -1) return
            locks = "unlimited"
            while ((getline line < (path "/limits")) > 0)
                if (line ~ /^Max file locks/) { split(line, limit, " "); locks = limit[4] }
            close(path "/limits")
            print "process", pid, field[2], field[3], field[4], field[20], locks, name
        }
        function last(    line, load) {
            getline line < "/proc/loadavg"
            close("/proc/loadavg")
            split(line, load, " ")
            return load[5] + 0
        }
        # The number of pids given after one pid, up to another; after the largest pid, the numbers begin again.
        function given(after, newest) { return newest < after ? newest - after + most : newest - after }
        # Examine these pids, except the first ones. A pid without a process costs little.
        function examine_given(after, skipped, count,    pid) {
            for (; skipped < count; skipped++) {
                pid = after + skipped + 1
                if (pid > most) pid -= most
                if (pid != own) examine(pid)
            }
        }
        BEGIN {
            newest = loads ? last() : 0
            while ((getline line < "/proc/stat") > 0 && line !~ /^processes /);
            close("/proc/stat")
            forks = line ~ /^processes / ? substr(line, 11) : 0
            print "at", place, newest, forks
            examine(own)
            first += 0
            count = given(first, newest)
            known = loads && there == place && forks > 0 && forks - before >= 0 && forks - before < most / 2 && first <= most
            if (known && count <= 2048) examine_given(first, 0, count)
            else {
                list = "printf \"%s\\n\" /proc/[0-9]*"
                for (listed = 0; (list | getline line) > 0; listed++) {
                    pid = substr(line, 7) + 0
                    if (pid != own && (!known || (given(first, pid) > 0 && given(first, pid) <= count))) examine(pid)
                }
                # A list that has not come to its end must not pass for all processes.
                if (close(list) != 0 || !listed) exit 1
            }
            # A chain of processes that fork and end is never in the list: the listed process has ended, and its child came later.
            # So the newest processes are examined until no newer one appears, at most twenty times, as locally (`CATCH_UPS`).
            for (turn = 0; loads && turn < 20 && (count = given(newest, now = last())) > 0; turn++) {
                examine_given(newest, count > 64 ? count - 64 : 0, count)
                newest = now
            }
        }'
}

# look_further: print the lines "mark", "begins" and "holds" of look, for as many processes as fit into one argument list
look_further() {
    # A login shell that is about to begin may have the tag already, so command lines are searched for all processes.
    [ "$tokens" ] && environs="$environs $lines"
    for path in $(having "$mark${tokens:+
$tokens}" $environs); do
        pid=${path#/proc/} pid=${pid%/*}
        case $path in
        # A line feed within a value begins no variable.
        */environ) tr '\n\0' '?\n' 2>/dev/null <"$path" | sed -n "s/^\\(${mark}[0-9a-z_]*\\)=.*/mark $pid \\1/p" ;;
        *)
            tr '\0' '\n' 2>/dev/null <"$path" | grep -F -e "$tokens" |
                sed -n "s/.*\\(anyshell[0-9a-f]\\{12\\}\\).*/begins $pid \\1/p"
            ;;
        esac
    done
    held $links
}

# held LINK...: print the lines "holds" of look for these descriptors
held() {
    links=$($list "$@" 2>/dev/null)
    IFS='
'
    set -- $links
    IFS=$fields
    # The target of a descriptor may be a file with a hostile name, which imitates a line of ls or a part of a line. So each
    # field must be at its place. The sought targets have no spaces in their names.
    for line; do
        case $line in *' -> '*:\[* | *' -> /dev/pts/'*) ;; *) continue ;; esac
        set -- $line
        case ${9-}${10-} in /proc/*/fd/*'->') ;; *) continue ;; esac
        case $#${11} in
        11/dev/pts/* | 12/dev/pts/*)
            case ${11#/dev/pts/} in '' | *[!0-9]*) continue ;; esac
            case ${12-} in '' | '(deleted)') ;; *) continue ;; esac
            ;;
        11*:\[*) case ${11%%:\[*} in '' | *[!a-z]*) continue ;; esac ;;
        *) continue ;;
        esac
        each=${9#/proc/}
        printf 'holds %s %s %s\n' "${each%%/*}" "${each##*/}" "${11}${12-}"
    done
}

# having WORDS FILE...: print the files that contain a line of WORDS; runs in a subshell
having() {
    words=$1
    shift
    [ $# -gt 0 ] || return
    [ "$grep_sees_all" ] && exec grep -lF -e "$words" "$@" 2>/dev/null
    cat "$@" 2>/dev/null | tr '\0' '\n' | grep -qF -e "$words" || return
    for path; do
        tr '\0' '\n' 2>/dev/null <"$path" | grep -qF -e "$words" && printf '%s\n' "$path"
    done
}

# look on a host without /proc, where the limits and variables of other processes cannot be read.
look_ps() {
    TZ=UTC0 ps -A -o pid= -o ppid= -o pgid= -o state= -o lstart= -o comm= | awk -v own="$$" '
        $1 == own { print "looked" }
        $4 !~ /^Z/ && $1 != own && $2 != own {
            name = $10; sub(/.*\//, "", name)
            print "process", $1, $2, $3, 0, $6 "-" $7 "-" $8 "-" $9, "unlimited", name
        }'
}

# signal NAME[+NAME] [-PID:STARTED] PID:STARTED...: signal these processes; with a minus, the whole group of the process
signal() {
    name=$1
    shift
    for each; do
        pid=${each%%:*}
        started "${pid#-}" && [ "$began" = "${each#*:}" ] || continue
        hit "$name" "$pid"
    done
}

# lead NAME[+NAME] PID SINCE TAG FD MARK: signal the whole group of a command's leader and the leader's descendants at once,
# without a look, by the shell itself. The descendants are listed first, as look does: after the leader's end, nothing shows
# that they descend from it. A leader without the tag must have the mark: on another machine behind the same host name, or in
# another pid namespace, the same pid is another process.
lead() {
    [ "$proc" ] || return
    name=$1 leader=$2 since=$3 tag=$4 fd=$5
    started "$leader" && [ "$began" -ge "$since" ] && in_group "$leader" "$leader" || return
    has_tag "$leader" "$tag" || { has_tag "$leader" unlimited && [ "$(having "$6=" "/proc/$leader/environ")" ]; } || return
    waiting=$leader count=0 others=
    while [ "$waiting" ]; do
        coming=
        for pid in $waiting; do
            [ $((count += 1)) -le 64 ] || break
            stat=
            while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$pid/stat"
            [ "$stat" ] || continue
            set -- ${stat##*) }
            stat=${stat#*(}
            printf 'process %s %s %s %s %s unlimited %s\n' "$pid" "$2" "$3" "$4" "${20}" "${stat%%)*}"
            [ "$3" = "$leader" ] || others="$others $pid:${20}"
            set +f
            for path in /proc/"$pid"/task/*/children; do
                line=
                { read -r line; } 2>/dev/null <"$path"
                coming="$coming $line"
            done 2>/dev/null
            set -f
        done
        waiting=${coming# }
    done
    # As in held, but without awk, which may be slow to start.
    set -- $($list "/proc/$leader/fd/$fd" 2>/dev/null)
    case $#${9-}${10-}${11-} in
    "11/proc/$leader/fd/$fd->"[a-z]*:\[* | "11/proc/$leader/fd/$fd->/dev/pts/"[0-9]*) printf 'holds %s %s %s\n' "$leader" "$fd" "${11}" ;;
    esac
    hit "$name" "-$leader"
    signal "$name" $others
    echo led
}

# newer FIRST TAG SHELL GROUP: print "some" if a process with that tag or with no limit, in that group, has a pid after FIRST,
# otherwise "none". The answer is "some" as well if the shell itself does not have the tag, or too many pids were given to look
# at.
newer() {
    [ "$loads" ] || { echo some; return; }
    read -r _ _ _ _ newest </proc/loadavg
    [ "$newest" -ge "$1" ] && [ $((newest - $1)) -le 200 ] &&
        { [ ! -d "/proc/$3" ] || has_tag "$3" "$2"; } || { echo some; return; }
    pid=$1
    while [ "$pid" -lt "$newest" ]; do
        pid=$((pid + 1))
        limit "$pid"
        case $locks in "$2" | unlimited) ;; *) continue ;; esac
        if [ "$pid" != "$3" ] && in_group "$pid" "$4"; then echo some; return; fi
    done
    echo none
}

in_group() {
    stat=
    while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
    set -- "$2" ${stat##*) }
    [ "$4" = "$1" ]
}

# input SHELL: print "busy" if the shell's descriptor 0 is the input of a session's command: /dev/null, or a named pipe
input() {
    [ "$proc" ] || return
    case $(readlink "/proc/$1/fd/0" 2>/dev/null) in /dev/null | /*/anyshell-*/in[0-9]*) echo busy ;; esac
}

# inner PID...: print the pid of each process in its own pid namespace, if that is another pid: "inner PID NUMBER"
inner() {
    [ "$proc" ] || return
    for each; do
        while read -r line; do
            case $line in NSpid:*) set -- $line; shift; [ $# -lt 2 ] || eval "printf 'inner %s %s\n' $each \${$#}"; break ;; esac
        done 2>/dev/null <"/proc/$each/status"
    done
}

# terminal PID: set $tty to the controlling terminal of a process, and $front to the terminal's foreground process group
terminal() {
    tty='' front=''
    if [ "$proc" ]; then
        stat=
        while read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$1/stat"
        set -- ${stat##*) }
        # Linux gives pseudo-terminals the major numbers 136 to 143.
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

# modes PID: print the settings of the process's terminal, as stty writes them
modes() {
    terminal "$1" && settings
}

settings() {
    printf 'modes %s\n' "$(stty -a 2>/dev/null <"$tty" | tr '\n' ' ')"
}

# foreground PID MOST: print the foreground processes of the process's terminal, at most MOST, with at most MOST threads each:
#   member PID STARTED CPU NAME     CPU is the used CPU time, in the unit of STARTED
#   name PID NAME                   the name once more, read after everything else of the process
#   child PID                       a child of a member, in another session than the terminal's
#   has PID DESCRIPTOR              the descriptor is open on the terminal
#   thread PID WHERE CALL...        a thread's place in the kernel, and its system call; 0 if not known
#   asleep PID                      the process sleeps
#   stopped PID                     the process is stopped, and reads nothing
#   hidden PID                      this user may not read more about the process
# The settings of the terminal come last: a process that waits for input has set them before it waits.
foreground() {
    terminal "$1" || return
    [ "$front" -gt 0 ] && { if [ "$proc" ]; then look_front "$2"; else look_front_ps "$2"; fi; }
    settings
}

look_front() {
    most=$1
    set +f
    whole list_front "$most"
    [ "$found" ] || { set -f; return; }
    printf '%s\n' "$found"
    folders=
    for pid in $(printf '%s\n' "$found" | while read -r kind each _; do
        [ "$kind" = asleep ] || [ "$kind" = stopped ] || printf '%s ' "$each"
    done); do
        # A process that has ended in the meantime is not hidden.
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
        # The process may have become another program after the list was made.
        name= && read -r name 2>/dev/null <"/proc/$pid/comm" && printf 'name %s %s\n' "$pid" "$name"
    done
    set -f
    [ "$folders" ] || return
    # With a single directory, ls would not print the directory's name.
    $list /dev/null $folders 2>/dev/null | awk -v tty="$tty" '
        NF == 1 && /^\/proc\/[0-9]+\/fd:$/ { split($1, part, "/"); pid = part[3] }
        NF == 11 && $10 == "->" && ($11 == tty || $11 == "/dev/tty") { print "has", pid, $9 }'
}

# list_front MOST: print the lines "member", "asleep", "stopped" and "child" of foreground
list_front() {
    printf '%s\n' /proc/[0-9]* | awk -v group="$front" -v most="$1" '
        {
            stat = ""
            while ((getline line < ($0 "/stat")) > 0) stat = stat " " line
            close($0 "/stat")
            if (!match(stat, /.*\)/)) next
            name = substr(stat, 1, RLENGTH - 1); sub(/^[^(]*\(/, "", name); gsub(/[^ -~]/, "?", name)
            split(substr(stat, RLENGTH + 2), field, " ")
            if ((field[1] == "Z" && field[18] < 2) || field[1] == "X") next
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
}

# look_front on a host without /proc.
look_front_ps() {
    TZ=UTC0 ps -A -o pid= -o pgid= -o state= -o lstart= -o time= -o comm= | awk -v group="$front" -v most="$1" '
        $2 == group && $3 !~ /^Z/ && count++ < most {
            parts = split($9, part, /[-:]/)
            seconds = part[parts] + 60 * part[parts - 1] + 3600 * part[parts - 2] + 86400 * part[parts - 3]
            name = $10; sub(/.*\//, "", name)
            print "member", $1, $5 "-" $6 "-" $7 "-" $8, seconds, name
        }'
}

# litter NAME...: remove the directories of sessions with a lost connection
litter() {
    for each; do
        case $each in *[!0-9a-f]*) continue ;; esac
        rm -rf "${TMPDIR:-/tmp}/anyshell-$each" "/tmp/anyshell-$each" 2>/dev/null
    done
    echo removed
}

# chase TAG [SHELL]: kill the processes with the tag among the newest processes, as soon as they appear. A chain of processes,
# each of which forks the next one and ends, is too fast for a look: by the time of the kill the listed process has ended. The
# chain ends when its last process is killed. SHELL, the shell of a session, has the tag of its command and is not killed.
chase() {
    [ "$proc" ] || return
    # mawk often fails here, at processes that end while they are read (see whole): list_newest is called again.
    for try in 1 2 3 4 5 6 7 8 9 10; do list_newest "$1" "${2:-0}" 2>/dev/null && break; done |
        while read -r pid; do kill -s KILL "$pid" 2>/dev/null; done
}

# list_newest TAG SHELL: print the pids of the newest processes with that tag as they appear, until none has appeared for a while
list_newest() {
    awk -v tag="$1" -v shell="$2" '
        BEGIN {
            for (turn = 0; turn < 300 && quiet < 25; turn++) {
                getline load < "/proc/loadavg"
                close("/proc/loadavg")
                split(load, field, " ")
                quiet++
                for (pid = field[5]; pid > field[5] - 16 && pid > 1; pid--) {
                    if (pid == shell) continue
                    hit = 0
                    while ((getline line < ("/proc/" pid "/limits")) > 0)
                        if (line ~ /^Max file locks/) { split(line, limit, " "); hit = limit[4] == tag; break }
                    close("/proc/" pid "/limits")
                    if (hit) { quiet = 0; print pid; fflush() }
                }
            }
        }'
}
