# What this host has for confining a command, a fact a line. $1: a Python that runs here; $2: a program for it that tells
# the version of Landlock. Changes nothing, but makes a control group for a moment.
say() { printf '%s %s\n' "$1" "$2"; }
# Not by "read", which may take a byte at a time: /proc/sys gives one, and no more.
first() { line=$(cat "$2" 2>/dev/null) && say "$1" "$line"; }
say system "$(uname -s)"
say kernel "$(uname -r)"
say uid "$(id -u)"
first profile /proc/self/attr/current
first apparmor /proc/sys/kernel/apparmor_restrict_unprivileged_userns
first allowed /proc/sys/kernel/unprivileged_userns_clone
first most /proc/sys/user/max_user_namespaces
first tiocsti /proc/sys/dev/tty/legacy_tiocsti
for python in "$1" python3 /usr/libexec/platform-python; do
    if said=$("$python" -I -S -c "$2" facts 2>/dev/null); then
        say python "${said#* * }"
        said=${said% "${said#* * }"}
        say python-version "${said#* }"
        say landlock "${said%% *}"
        break
    fi
done
if bwrap=$(command -v bwrap); then
    say bwrap "$bwrap"
    say version "$("$bwrap" --version 2>/dev/null)"
    [ -u "$bwrap" ] && say setuid 1
    entered=
    for part in user pid net; do
        # A bwrap with a setuid bit knows no --size.
        if said=$("$bwrap" --unshare-user --unshare-$part --ro-bind / / --dev /dev --size 4096 --tmpfs /tmp -- /bin/sh -c : 2>&1); then
            say can "$part"
            entered=$part
        else
            say cannot "$part $(printf '%s' "$said" | tail -n 1)"
            break
        fi
    done
    # A container may mask a part of /proc, and then no other can be mounted. A bwrap with a setuid bit does not come back here.
    if [ -n "$entered" ]; then
        if said=$("$bwrap" --unshare-user --unshare-pid --ro-bind / / --dev /dev --proc /proc --disable-userns -- /bin/sh -c : 2>&1); then
            say can proc
        else
            say cannot "proc $(printf '%s' "$said" | tail -n 1)"
        fi
    fi
fi
# The nearest group above this process in which others can be made and entered, and what they can limit.
while IFS=: read -r number _ group; do
    case $number$group in
        0*..*) continue ;;
        0*) ;;
        *) continue ;;
    esac
    for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do
        [ -r "$top$group/cgroup.controllers" ] || continue
        place=$top${group%/}
        while :; do
            controllers=
            for each in $(cat "$place/cgroup.subtree_control"); do
                case $each in memory | pids) controllers="$controllers $each" ;; esac
            done
            if [ -n "$controllers" ] && made=$(mktemp -d "$place/anyshell-$$-XXXXXX"); then
                (printf 0 >"$made/cgroup.procs") && entered=1 || entered=
                rmdir "$made"
                [ -n "$entered" ] && say cgroup "${controllers# } $place" && break
            fi
            [ "$place" = "$top" ] && break
            place=${place%/*}
        done
        break
    done
done 2>/dev/null </proc/self/cgroup
say over 1
