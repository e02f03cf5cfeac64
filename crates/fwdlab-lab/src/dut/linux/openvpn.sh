# OpenVPN tunnels (AES-256-GCM) for gateway.sh. Both ends of each tunnel are processes on the DUT's CPUs: it encrypts and decrypts. The files of
# the daemons near0, far0, near1, ... are in $FWDLAB_DAEMONS.
lacks() {
    for program in openvpn openssl; do
        command -v $program >/dev/null || echo "it has no program $program; install the package $program"
    done
}

prepare() {
    cd "$FWDLAB_DAEMONS"
    for side in near far; do
        # it also reports its progress on stderr
        said=$(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "/CN=$side" \
            -keyout "$side.key" -out "$side.pem" 2>&1) || fail "openssl made no certificate: $said"
    done
    print() { openssl x509 -in "$1.pem" -noout -sha256 -fingerprint | cut -d= -f2; }
    common="${cpus:+taskset -c $cpus} openvpn --dev-type tun --proto udp --data-ciphers AES-256-GCM --verb 1 --daemon"
}

tunnel() {
    port=$((1194 + n))
    # shellcheck disable=SC2086
    ip netns exec far $common --dev "$dev" --tls-server --dh none --local 192.0.0.241 --port $port --cert far.pem --key far.key \
        --peer-fingerprint "$(print near)" --ifconfig "$far" "$near" --log "$PWD/far$n.log" --writepid "$PWD/far$n.pid" --cd "$PWD"
    # shellcheck disable=SC2086
    $common --dev "$dev" --tls-client --remote 192.0.0.241 $port --nobind --cert near.pem --key near.key \
        --peer-fingerprint "$(print far)" --ifconfig "$near" "$far" --log "$PWD/near$n.log" --writepid "$PWD/near$n.pid" --cd "$PWD"
}

up() { echo $(($(grep -l "Initialization Sequence Completed" near*.log far*.log 2>/dev/null | wc -l) / 2)); }

settle() { :; }

fail() {
    echo "$1" >&2
    for log in $(ls -- *.log 2>/dev/null); do tail -n 3 "$log" | sed "s/^/${log%.log}: /" >&2; done
    exit 1
}

gone() {
    for file in "$FWDLAB_DAEMONS"/near*.pid "$FWDLAB_DAEMONS"/far*.pid; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null || :
    done
}
