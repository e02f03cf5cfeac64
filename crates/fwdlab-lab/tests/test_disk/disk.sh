#!/bin/sh
# Creates a disk that boots a complete system: boot loader, kernel, console, SSH. Needs no
# privileges; nothing is mounted or installed.
#
#   disk.sh KERNEL MODULES INITRAMFS FOLDER
#
# FOLDER gets `disk` (raw, one FAT partition) and `key`, for root's SSH login. The console's
# password is fwdlab; if the partition has a file `open`, root logs in on the console without a
# password, and not over SSH. The initial file system is the whole system, with the partition at
# /boot. The caller chooses the kernel and the programs. Start reading with the boot loader's
# entries.
set -eu
kernel=$1 modules=$2 initramfs=$3 folder=$4
work=$folder/work
mkdir -p "$work/root/etc/ssh" "$work/boot"

# two entries, so that the lab can choose the old one if a new one does not boot
cat > "$work/boot/syslinux.cfg" <<'END'
SERIAL 0 115200
PROMPT 1
TIMEOUT 20
DEFAULT current
LABEL current
  KERNEL vmlinuz
  INITRD system,own
  APPEND console=ttyS0 quiet mitigations=off noapictimer no_timer_check tsc=reliable cryptomgr.notests norandmaps rdinit=/own-init
LABEL old
  KERNEL vmlinuz
  INITRD system,own
  APPEND console=ttyS0 quiet mitigations=off noapictimer no_timer_check tsc=reliable cryptomgr.notests norandmaps rdinit=/own-init entry=old
END

cat > "$work/root/own-init" <<'END'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /run/sshd /boot /var/log
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
for module in virtio_pci virtio_blk virtio_net ata_piix sd_mod e1000 vfat nls_cp437 nls_ascii pvpanic-mmio button evdev i6300esb; do
    modprobe -q "$module"
done
# the kernel may find the partition only after modprobe has ended
for _ in $(seq 100); do
    for partition in /dev/vda1 /dev/sda1; do
        mount -t vfat -o sync $partition /boot 2>/dev/null && break 2
    done
    sleep 0.1
done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
acpid
/usr/sbin/sshd
# root logs in on the console without a password, and not over SSH
if [ -e /boot/open ]; then
    sed -i 's/^root:[^:]*:/root::/' /etc/shadow
    rm "$HOME/.ssh/authorized_keys"
fi
entry=current
grep -q entry=old /proc/cmdline && entry=old
hostname "$entry"
while :; do
    setsid getty -L 115200 ttyS0 vt100
done
END
chmod +x "$work/root/own-init"
# what busybox's acpid runs when the power button is pressed
mkdir -p "$work/root/etc/acpi/PWRF"
printf '#!/bin/sh\nsync\npoweroff -f\n' > "$work/root/etc/acpi/PWRF/00000080"
chmod +x "$work/root/etc/acpi/PWRF/00000080"

# the first process is a script, which ignores the signals of a reboot
mkdir -p "$work/root/usr/sbin"
printf '#!/bin/sh\nsync\nreboot -f\n' > "$work/root/usr/sbin/shutdown"
chmod +x "$work/root/usr/sbin/shutdown"

cat > "$work/root/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/sh
sshd:x:100:65534::/run/sshd:/bin/false
nobody:x:65534:65534:nobody:/:/bin/false
END
cat > "$work/root/etc/shadow" <<'END'
root:$6$fwdlab$gaY2B0CUPDVDcO/Pj/yFqB.BUe/9opd7MjQo2zVa18GbDFcFRJPFiA0gno7twt1t7Dqwnv2KyuzBt7HCUecKf0:19000:0:99999:7:::
sshd:!:19000::::::
END
cat > "$work/root/etc/ssh/sshd_config" <<'END'
HostKey /etc/ssh/host
AuthorizedKeysFile .ssh/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
PermitRootLogin yes
Subsystem sftp internal-sftp
END
ssh-keygen -q -t ed25519 -N '' -C lab -f "$folder/key"
ssh-keygen -q -t ed25519 -N '' -C dut -f "$work/root/etc/ssh/host"
mkdir -p "$work/root/root/.ssh"
cp "$folder/key.pub" "$work/root/root/.ssh/authorized_keys"

# modules that the initial file system leaves out; a kernel may have them built in, or not at all
for module in fs/fat/fat fs/fat/vfat fs/nls/nls_cp437 fs/nls/nls_ascii drivers/misc/pvpanic/pvpanic drivers/misc/pvpanic/pvpanic-mmio \
    drivers/acpi/button drivers/input/evdev drivers/watchdog/watchdog drivers/watchdog/i6300esb drivers/ata/libata drivers/ata/ata_piix \
    drivers/scsi/scsi_common drivers/scsi/scsi_mod drivers/scsi/sd_mod block/t10-pi drivers/uio/uio drivers/uio/uio_pci_generic; do
    for file in "$modules/kernel/$module".ko*; do
        [ -e "$file" ] || continue
        there=$work/root/usr/lib/modules/${modules##*/}/kernel/$module
        mkdir -p "${there%/*}"
        cp "$file" "${there%/*}/"
    done
done
(cd "$work/root" && find . | cpio --quiet -o -H newc -R 0:0) > "$work/boot/own"
gzip -1 < "$initramfs" > "$work/boot/system"
cp "$kernel" "$work/boot/vmlinuz"

# one partition from the first MiB on, FAT16 with 128 MiB
disk=$folder/disk.new
rm -f "$disk"
truncate -s 129M "$disk"
dd if=/usr/lib/syslinux/mbr/mbr.bin of="$disk" conv=notrunc status=none
# active, FAT16 (0x0e), from block 2048 on, 262144 blocks
printf '\200\000\000\000\016\000\000\000\000\010\000\000\000\000\004\000' |
    dd of="$disk" bs=1 seek=446 conv=notrunc status=none
printf '\125\252' | dd of="$disk" bs=1 seek=510 conv=notrunc status=none
export MTOOLS_SKIP_CHECK=1
mformat -i "$disk@@1M" -T 262144 -h 16 -s 63 -H 2048 ::
mcopy -i "$disk@@1M" "$work/boot/"* ::
syslinux --install --offset 1048576 "$disk"
rm -rf "$work"
mv "$disk" "$folder/disk"
