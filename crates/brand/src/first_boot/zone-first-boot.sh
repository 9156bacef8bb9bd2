#!/bin/sh
### BEGIN INIT INFO
# Provides:          zone-first-boot
# Required-Start:    $all
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:
# Short-Description: Runs the commands of the first boot of this zone, each once
### END INIT INFO
# zoneadm install -c and clone -c wrote this file. See docs/first-boot.md.

[ "$1" = start ] || exit 0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
cd /var/lib/zones/first-boot || exit 0

# Writes the new names to the disk. Not every sync(1) takes the name of a file.
keep() { sync . 2>/dev/null || sync; }

for file in *.started; do
    [ -f "$file" ] || continue
    name=${file%.started}
    mv "$file" "$name.interrupted"
    echo "first boot: command $name was interrupted and does not run again: run it by hand from $PWD/$name.interrupted"
done
for file in *.todo; do
    [ -f "$file" ] || continue
    name=${file%.todo}
    mv "$file" "$name.started" || exit 1
    keep
    echo "first boot: command $name starts"
    if (cd / && exec /bin/sh "/var/lib/zones/first-boot/$name.started" </dev/null); then
        mv "$name.started" "$name.done"
        echo "first boot: command $name ended"
    else
        status=$?
        mv "$name.started" "$name.failed"
        echo "first boot: command $name failed: exit status $status"
    fi
done
keep
rm -f /etc/rc2.d/S99zone-first-boot \
    /etc/systemd/system/multi-user.target.wants/zone-first-boot.service
