# anyshell_place: print "MACHINE NAMESPACE", the place in which a pid means the same process as here. This text is put
# before the texts of job.sh and look.sh.

# shellcheck shell=sh

anyshell_place() (
    namespace=$(readlink /proc/self/ns/pid 2>/dev/null) || namespace=-
    machine=
    read -r machine 2>/dev/null </etc/machine-id
    # A container may have the machine id of its image, or none, but has a name of its own. The number is the inode of the
    # first pid namespace (PROC_PID_INIT_INO in the kernel's proc_ns.h).
    case $machine/$namespace in
    ?*/- | ?*'/pid:[4026531836]') ;;
    *) machine=$machine:$(uname -n) ;;
    esac
    printf '%s %s\n' "$machine" "$namespace"
)
