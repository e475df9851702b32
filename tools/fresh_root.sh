# fresh_root - a minimal Debian 12 in a folder, for tools/test-fresh and tools/test-deb, which read this file with `.`.
#
#   $repo and $fresh are set before; fresh_make gives $root, and `inside COMMAND...` runs in it
#
# Needs root, debootstrap and what the machine's own apt settings reach. These settings are copied into the folder at
# run time. FRESH_KEEP=1 leaves the folder there afterwards.
# shellcheck shell=sh

root=$fresh/root
begun=$(date +%s)

say() { printf '\n== %s (%s s)\n' "$1" "$(($(date +%s) - begun))"; }

fresh_unmount() {
    for at in dev/pts dev/shm proc; do
        if mountpoint -q "$root/$at" 2>/dev/null; then umount -l "$root/$at"; fi
    done
}
fresh_finish() {
    code=$?
    fresh_unmount
    if [ -z "${FRESH_KEEP:-}" ]; then rm -rf "$fresh"; fi
    exit "$code"
}

fresh_copy_settings() {
    rm -f "$root/etc/apt/sources.list"
    for part in sources.list sources.list.d apt.conf apt.conf.d auth.conf auth.conf.d preferences.d keyrings trusted.gpg.d; do
        if [ -e "/etc/apt/$part" ]; then rm -rf "$root/etc/apt/$part"; cp -a "/etc/apt/$part" "$root/etc/apt/$part"; fi
    done
    mkdir -p "$root/usr/share/keyrings" "$root/usr/local/share/ca-certificates" "$root/root"
    cp -an /usr/share/keyrings/. "$root/usr/share/keyrings/"
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    for file in /etc/npmrc /etc/resolv.conf /etc/hosts; do
        if [ -e "$file" ]; then cp -L "$file" "$root$file"; fi
    done
    if [ -e "${HOME:-/nonexistent}/.npmrc" ]; then cp -L "$HOME/.npmrc" "$root/root/.npmrc"; fi
}

# Make the folder; it is removed when the script ends.
fresh_make() {
    [ "$(id -u)" -eq 0 ] || { echo "a fresh Debian needs root" >&2; exit 1; }
    command -v debootstrap >/dev/null || { echo "install debootstrap first" >&2; exit 1; }
    # The first mirror that the machine itself uses; the suite is Debian 12's.
    mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+).*/\2/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)
    [ -n "$mirror" ] || { echo "there is no mirror in the machine's apt settings" >&2; exit 1; }
    trap fresh_finish EXIT
    trap 'exit 130' INT TERM

    say "making a minimal Debian 12"
    fresh_unmount
    rm -rf "$root"
    mkdir -p "$fresh"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >"$fresh/debootstrap.log" 2>&1 ||
        { tail -n 20 "$fresh/debootstrap.log" >&2; exit 1; }

    say "copying the machine's apt, npm and certificate settings"
    fresh_copy_settings
    mount -t proc proc "$root/proc" 2>/dev/null || mount --bind /proc "$root/proc" || true
    mkdir -p "$root/dev/pts" "$root/dev/shm"
    mount -t devpts devpts "$root/dev/pts" 2>/dev/null || true
    mount -t tmpfs tmpfs "$root/dev/shm" 2>/dev/null || true
}

# Proxies and certificates of this shell go along; nothing else does.
inside() {
    for name in $(env | sed -nE 's/^([A-Za-z_]*(_proxy|_PROXY)|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|npm_config_[a-z_]+|NPM_CONFIG_[A-Z_]+)=.*/\1/p'); do
        eval "value=\$$name"
        # shellcheck disable=SC2154
        set -- "$name=$value" "$@"
    done
    chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
