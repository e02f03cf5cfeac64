# WireGuard tunnels for gateway.sh. Kernel threads encrypt and decrypt, on all CPUs of the machine. Each tunnel has its own port; keys are
# created for this run, one for each end.
lacks() {
    command -v wg >/dev/null || echo "it has no program wg; install the package wireguard-tools"
    if said=$(ip link add tun0 type wireguard 2>&1); then
        ip link del tun0
    else
        echo "its kernel, $(uname -r), makes no port of WireGuard ($said); have it load the module wireguard, or measure where there is one"
    fi
}

prepare() {
    umask 077
    keys=$(mktemp -d)
    trap 'rm -rf "$keys"' EXIT
    for side in near far; do
        wg genkey >"$keys/$side"
        wg pubkey <"$keys/$side" >"$keys/$side.pub"
    done
}

# The near end starts the session at once, so that no test frame waits for it.
tunnel() {
    port=$((51820 + n))
    ip -n far link add "$dev" type wireguard
    ip netns exec far wg set "$dev" private-key "$keys/far" listen-port $port peer "$(cat "$keys/near.pub")" allowed-ips 0.0.0.0/0
    ip -n far addr add "$far" peer "$near" dev "$dev"
    ip -n far link set "$dev" up
    ip link add "$dev" type wireguard
    wg set "$dev" private-key "$keys/near" peer "$(cat "$keys/far.pub")" allowed-ips 0.0.0.0/0 endpoint 192.0.0.241:$port \
        persistent-keepalive 1
    ip addr add "$near" peer "$far" dev "$dev"
    ip link set "$dev" up
}

up() { wg show all latest-handshakes | grep '^tun' | grep -vc '[[:space:]]0$' || :; }

settle() { for dev in $(devs); do wg set "$dev" peer "$(cat "$keys/far.pub")" persistent-keepalive 0; done; }

fail() {
    echo "$1; what it says of its tunnels:" >&2
    wg show all latest-handshakes >&2
    exit 1
}

gone() { :; }
