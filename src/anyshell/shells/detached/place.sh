# anyshell_place: print "MACHINE NAMESPACE", where the numbers of processes mean what they do here. What stands before
# job.sh and look.sh.

# shellcheck shell=sh

anyshell_place() (
    namespace=$(readlink /proc/self/ns/pid 2>/dev/null) || namespace=-
    machine=
    read -r machine 2>/dev/null </etc/machine-id
    # A container may have the id of its image, or none; its name is its own. The number is that of the first namespace
    # (PROC_PID_INIT_INO in the kernel's proc_ns.h).
    case $machine/$namespace in
    ?*/- | ?*'/pid:[4026531836]') ;;
    *) machine=$machine:$(uname -n) ;;
    esac
    printf '%s %s\n' "$machine" "$namespace"
)
