"""Program table: programs that change the machine (kill, systemctl, mount, crontab)."""

from __future__ import annotations

from tillerman.core.permission.shell.programs.row import Row

ROWS = (
    Row("kill|pkill|killall|skill|systemctl|service|journalctl|loginctl|launchctl|initctl|shutdown"
        "|reboot|halt|poweroff|mount|umount|losetup|modprobe|insmod|rmmod|sysctl|useradd|userdel"
        "|usermod|groupadd|passwd|chpasswd|visudo|iptables|nft|ufw|ifconfig|route|hostnamectl"
        "|timedatectl|swapon|swapoff|mkfs|fsck|fdisk"
        "|parted|crontab|cryptsetup", "runs", "mention*", ),
)  # fmt: skip
