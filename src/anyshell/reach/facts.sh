# Print the means of this host to confine a command, one fact on each line. $1 is a Python of this host, and $2 is a program
# for Python that prints the version of Landlock. Nothing is changed, but a control group exists for a moment.
say() { printf '%s %s\n' "$1" "$2"; }
# first NAME FILE: print the content of a file as a fact. Not by "read", which may read byte by byte: a file of /proc/sys
# then gives one byte only.
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
        # A bwrap with a setuid bit has no option --size.
        if said=$("$bwrap" --unshare-user --unshare-$part --ro-bind / / --dev /dev --size 4096 --tmpfs /tmp -- /bin/sh -c : 2>&1); then
            say can "$part"
            entered=$part
        else
            say cannot "$part $(printf '%s' "$said" | tail -n 1)"
            break
        fi
    done
    # A container may mask a part of /proc; then no other /proc can be mounted. A bwrap with a setuid bit does not get here.
    if [ -n "$entered" ]; then
        if said=$("$bwrap" --unshare-user --unshare-pid --ro-bind / / --dev /dev --proc /proc --disable-userns -- /bin/sh -c : 2>&1); then
            say can proc
        else
            say cannot "proc $(printf '%s' "$said" | tail -n 1)"
        fi
    fi
fi
# Find the nearest control group above this process in which new groups can be made and entered, and its controllers.
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
