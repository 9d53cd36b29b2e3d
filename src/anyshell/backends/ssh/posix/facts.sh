# The facts of a host, and the first of its shells that answers. In the first text for a host, this text follows `watcher.sh`.

# shellcheck shell=sh disable=SC2086,SC2046,SC2154

words=$# called=$0

# facts DIRECTORY PROGRAM... -- [KIND PATH ARGUMENT... ,]...: print the facts of the host, and the first shell that answers.
# A word "," ends the words of each shell; no argument is ",". With $brief, only the facts that a command needs are printed,
# and an existing shell is believed to be of its kind. Each program that this function starts makes reaching a host take longer.
facts() {
    # Start tr only for a value with a line feed: hardly any value has one.
    fact() {
        value=$2
        case $value in *"
"*) value=$(printf '%s' "$value" | tr '\n' ' ') ;; esac
        printf 'fact %s %s\n' "$1" "$value"
    }
    # A forced command that is a shell has read this text from its stdin. It would run a command's input as well.
    [ "$called" = anyshell ] || { fact unheard "$called"; return; }
    system() { system=$1 host=$2 release=$3 arch=$4; }
    system=
    [ "$proc" ] && {
        host='' arch=''
        read -r system </proc/sys/kernel/ostype && read -r release </proc/sys/kernel/osrelease
        # Ask uname where the machine acts as another, as by setarch(8), or has no /proc/sys/kernel/arch (before Linux 6.1).
        [ "$brief" ] || { read -r each </proc/self/personality && [ "$each" = 00000000 ] &&
            read -r host </proc/sys/kernel/hostname && read -r arch </proc/sys/kernel/arch; } || system=
    } 2>/dev/null
    [ "$system" ] || system $(uname -snrm)
    fact system "$system"
    fact release "$release"
    fact arch "$arch"
    fact hostname "$host"
    fact home "${HOME:-/}"
    [ "$brief" ] || {
        # The server sets LOGNAME, but a startup file may too. LOGNAME is believed if the home of that user is $HOME and ours.
        user=${LOGNAME-}
        case $user in
        '' | [!A-Za-z_]* | *[!A-Za-z0-9._-]*) user= ;;
        *) eval "each=~$user"; [ "$each" = "${HOME-}" ] && [ -O "$each" ] || user= ;;
        esac
        [ "$user" ] || user=$(id -un 2>/dev/null || id -u)
        fact user "$user"
    }
    # Find the login shell that read the line: a ForceCommand may hand the line to another shell than the account's. The
    # number of words shows bash and zsh, which expand braces (`_TELLING` of `login.py`).
    case $words:$brief in
    5:* | 7:*) SHELL=bash ;;
    6:*) SHELL=zsh ;;
    *:1) SHELL= ;;
    *)
        entry=$(getent passwd "$user" 2>/dev/null)
        [ "$entry" ] && SHELL=${entry##*:}
        case ${SHELL##*/} in bash* | zsh*) SHELL= ;; esac
        ;;
    esac
    fact login "${SHELL-}"
    # Linux counts ticks in hundredths of a second, except on two kinds of machine.
    case $system-$arch in
    Linux-alpha* | Linux-ia64) fact ticks "$(getconf CLK_TCK 2>/dev/null)" ;;
    Linux-*) ;;
    *) fact ticks "$(getconf CLK_TCK 2>/dev/null || echo 100)" ;;
    esac
    fact proc "$proc"
    if [ "$brief" ]; then :
    elif [ -r /etc/os-release ]; then
        (. /etc/os-release; fact name "${NAME-}"; fact version "${VERSION_ID-}")
    elif [ "$system" = Darwin ]; then
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
    # Look for all programs in one subshell: a subshell for each program would take a third of the time.
    [ "$1" = -- ] || {
        found=$(for each; do [ "$each" = -- ] && break; printf '= %s\n' "$each"; command -v -- "$each" 2>/dev/null; done)
        fields=$IFS
        IFS='
'
        for line in $found; do
            case $line in
            '= '*) each=${line#= } ;;
            /*) [ "$each" ] && printf 'fact program %s %s\n' "$each" "$line"; each= ;;
            esac
        done
        IFS=$fields
        while [ "$1" != -- ]; do shift; done
    }
    shift
    unset BASH_ENV ENV
    while [ $# -gt 0 ]; do
        kind=$1 wanted=$2
        shift 2
        path=
        case $wanted in
        /*) [ -f "$wanted" ] && [ -x "$wanted" ] && path=$wanted ;;
        *) path=$(command -v -- "$wanted" 2>/dev/null); case $path in /*) ;; *) path= ;; esac ;;
        esac
        answer=
        if [ ! "$path" ]; then :
        elif [ "$brief" ]; then answer='anyshell '
        else
            limit=
            command -v timeout >/dev/null 2>&1 && limit='timeout 5'
            answer=$(run_candidate "$@")
            status=$?
        fi
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

# run_candidate ARGUMENT...: become the candidate for the shell; called in a subshell
run_candidate() {
    # The words up to the comma are the candidate's arguments.
    count=0
    for word; do [ "$word" = , ] && break; count=$((count + 1)); done
    exec </dev/null 2>/dev/null
    case $count in
    1) exec $limit "$path" "$1" ;;
    2) exec $limit "$path" "$1" "$2" ;;
    3) exec $limit "$path" "$1" "$2" "$3" ;;
    4) exec $limit "$path" "$1" "$2" "$3" "$4" ;;
    *) exec $limit "$path" "$1" "$2" "$3" "$4" "$5" ;;
    esac
}
