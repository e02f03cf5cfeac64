# A second router behind this one, in a network namespace of its own, to which frames go and from which they come back; through tunnels of
# OpenVPN (AES-256-GCM), or plainly.
#
#   eth0 | DUT  10.0.0.1 ---- 10.0.0.2 far |      mid: there, in tunnels over it
#   eth1 |      10.0.1.1 ---- 10.0.1.2     |      back: here again, plainly
#
# Before it stand: tunnels (how many; 0: none) and cpus. Both ends of a tunnel are processes on the DUT's CPUs: it encrypts and decrypts. Files
# of the daemons near0, far0, near1, ... are in $FWDLAB_DAEMONS.
set -eu
ip netns add far
ip link add mid0 type veth peer name mid1 netns far
ip link add back0 type veth peer name back1 netns far
for end in mid0 back0; do ip link set "$end" up; done
ip addr add 10.0.0.1/30 dev mid0
ip addr add 10.0.1.1/30 dev back0
ip -n far -batch - <<FAR
link set lo up
link set mid1 up
link set back1 up
addr add 10.0.0.2/30 dev mid1
addr add 10.0.1.2/30 dev back1
route add default via 10.0.1.1
FAR
ip netns exec far sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
# ports of a connection are among what chooses its tunnel
sysctl -qw net.ipv4.conf.mid0.rp_filter=0 net.ipv4.conf.back0.rp_filter=0 net.ipv4.fib_multipath_hash_policy=1
# what comes in goes to the other end first; what comes back from there is routed as ever
ip route add default via 10.0.0.2 table 100
ip rule add iif "$FWDLAB_IN" lookup 100
way=mid0

if [ "$tunnels" -gt 0 ]; then
    cd "$FWDLAB_DAEMONS"
    fail() {
        echo "$1" >&2
        for log in *.log; do tail -n 3 "$log" | sed "s/^/${log%.log}: /" >&2; done
        exit 1
    }
    for side in near far; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "/CN=$side" \
            -keyout "$side.key" -out "$side.pem" 2>/dev/null
    done
    print() { openssl x509 -in "$1.pem" -noout -sha256 -fingerprint | cut -d= -f2; }
    common="${cpus:+taskset -c $cpus} openvpn --dev-type tun --proto udp --data-ciphers AES-256-GCM --verb 1 --daemon"
    hops=
    for n in $(seq 0 $((tunnels - 1))); do
        near=10.0.8.$((4 * n + 1)) far=10.0.8.$((4 * n + 2)) port=$((1194 + n))
        # shellcheck disable=SC2086
        ip netns exec far $common --dev "tun$n" --tls-server --dh none --local 10.0.0.2 --port $port --cert far.pem --key far.key \
            --peer-fingerprint "$(print near)" --ifconfig $far $near --log "$PWD/far$n.log" --writepid "$PWD/far$n.pid" --cd "$PWD"
        # shellcheck disable=SC2086
        $common --dev "tun$n" --tls-client --remote 10.0.0.2 $port --nobind --cert near.pem --key near.key \
            --peer-fingerprint "$(print far)" --ifconfig $near $far --log "$PWD/near$n.log" --writepid "$PWD/near$n.pid" --cd "$PWD"
        hops="$hops nexthop via $far dev tun$n"
    done
    up() { grep -l "Initialization Sequence Completed" near*.log far*.log 2>/dev/null | wc -l; }
    for try in $(seq 200); do
        [ "$(up)" -lt $((2 * tunnels)) ] || break
        sleep 0.1
    done
    [ "$(up)" -eq $((2 * tunnels)) ] || fail "of $tunnels tunnels of OpenVPN not all came up"
    # shellcheck disable=SC2086
    ip route replace default table 100 $hops
    way=tun
fi
ip route get 198.19.0.9 from 198.18.0.9 iif "$FWDLAB_IN" | grep -q "dev $way" || { echo "frames do not go by $way" >&2; exit 1; }
