# What this host has for confining a command, a fact a line. $1: a Python that runs here; $2: a program for it that tells
# the version of Landlock. Changes nothing.
say() { printf '%s %s\n' "$1" "$2"; }
# Not by "read", which may take a byte at a time: /proc/sys gives one, and no more.
first() { line=$(cat "$2" 2>/dev/null) && say "$1" "$line"; }
say system "$(uname -s)"
say kernel "$(uname -r)"
say uid "$(id -u)"
first apparmor /proc/sys/kernel/apparmor_restrict_unprivileged_userns
first allowed /proc/sys/kernel/unprivileged_userns_clone
first most /proc/sys/user/max_user_namespaces
first tiocsti /proc/sys/dev/tty/legacy_tiocsti
for python in "$1" python3 /usr/libexec/platform-python; do
    if said=$("$python" -I -S -c "$2" facts 2>/dev/null); then
        say python "${said#* }"
        say landlock "${said%% *}"
        break
    fi
done
if bwrap=$(command -v bwrap); then
    say bwrap "$bwrap"
    say version "$("$bwrap" --version 2>/dev/null)"
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
while IFS=: read -r number _ group; do
    [ "$number" = 0 ] || continue
    for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do
        if [ -r "$top$group/cgroup.controllers" ]; then
            read -r controllers <"$top$group/cgroup.controllers"
            [ -w "$top$group/cgroup.procs" ] && say cgroup "${controllers:-none}"
            break
        fi
    done
done 2>/dev/null </proc/self/cgroup
say over 1
