# Boots systemd in namespaces of its own, on a copy of this machine's /usr, /etc and /var that is discarded at the end.
# It is process 1 of a new PID namespace. $1 is an empty directory, $2 a directory that the machine sees as /media,
# and $3 the name of its control group.
set -eu
base=$1 share=$2 group=$3
mount --make-rprivate /
mount -t tmpfs tmpfs "$base"
root=$base/root
mkdir "$root" "$base/cgroup"
mount --bind "$root" "$root" # the root must be a mount

# Only processes of the machine are in its control group, which is the root of its hierarchy.
mount -t cgroup2 cgroup2 "$base/cgroup"
mkdir "$base/cgroup/$group"
echo 0 >"$base/cgroup/$group/cgroup.procs"
umount "$base/cgroup"

for dir in usr etc var; do
	mkdir "$base/$dir" "$base/$dir/upper" "$base/$dir/work" "$root/$dir"
	mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$base/$dir/upper,workdir=$base/$dir/work" "$root/$dir"
done
for link in /bin /sbin /lib /lib32 /lib64 /libx32; do # links into /usr
	[ ! -L $link ] || cp -P $link "$root/"
done
mkdir "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/root" "$root/home" "$root/media" "$root/.old"
chmod 1777 "$root/tmp"
chmod 0700 "$root/root"
mount --bind "$share" "$root/media"
# Settings of the kernel are those of this machine: the new one must not change them.
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
for node in null zero full random urandom tty; do
	touch "$root/dev/$node"
	mount --bind "/dev/$node" "$root/dev/$node"
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# Nothing of this machine's configuration runs there but systemd itself.
rm -rf "$root/etc/systemd/system" "$root/etc/init.d" "$root"/etc/rc?.d "$root/etc/machine-id"
mkdir "$root/etc/systemd/system"
: >"$root/etc/machine-id"

exec unshare --cgroup sh -eu -c '
	mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
	cd "$1"
	pivot_root . .old
	umount -l .old
	mount --make-rshared / # credentials of units are mounted elsewhere, and propagated
	exec setpriv --bounding-set -sys_module,-sys_time,-sys_rawio,-sys_boot,-syslog,-mac_admin,-mac_override,-wake_alarm \
		env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target --show-status=0 --log-target=console
' boot "$root"
