# A second router behind the DUT, in its own network namespace. Frames reach it and return from it through tunnels, or without tunnels.
#
#   eth0 | DUT  192.0.0.240 ---- 192.0.0.241 far |      mid: to the second router, in tunnels over it
#   eth1 |      192.0.0.242 ---- 192.0.0.243     |      back: from the second router, without tunnels
#
# The caller prepends variables: tunnels (their number; 0: none), cpus, guest (not empty: a guest that loads no modules by itself); and the
# functions of a family: lacks (prints what is missing), prepare, tunnel (creates $dev from $near to $far, number $n), up (prints the number of
# tunnels that are up), settle, fail, gone. The caller appends one word: look, make or back. No host uses 192.0.0.0/24 (RFC 6890).
set -eu
devs() { seq 0 $((tunnels - 1)) | sed 's/^/tun/'; }

# Prints a line for each obstacle, and then `looked`.
look() {
    for link in mid0 back0 $(devs); do
        ! ip link show dev "$link" >/dev/null 2>&1 || echo "it has a port $link already; rename or remove it"
    done
    ! ip netns list | grep -q '^far\( \|$\)' || echo "it has a network namespace far already; remove it: ip netns del far"
    [ -z "$(ip route show table 100 2>/dev/null)" ] || echo "its table 100 has routes already; flush it: ip route flush table 100"
    ! ip -o -4 address | grep -q ' 192\.0\.0\.' || echo "it has addresses in 192.0.0.0/24 already, which the tunnels need; remove them"
    [ "$tunnels" -eq 0 ] || lacks
    echo looked
}

make() {
    ip netns add far
    # ports inherit the default when they are created
    ip netns exec far sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    # both ends have the same MAC address, so that no ARP request is sent while frames are counted
    same="address 02:00:00:5a:17:00 arp off"
    for link in mid back; do
        # shellcheck disable=SC2086
        ip link add "${link}0" $same type veth peer name "${link}1" $same netns far
    done
    sysctl -qw net.ipv4.conf.mid0.rp_filter=0 net.ipv4.conf.back0.rp_filter=0
    ip -batch - <<NEAR
link set mid0 up
link set back0 up
addr add 192.0.0.240 peer 192.0.0.241 dev mid0
addr add 192.0.0.242 peer 192.0.0.243 dev back0
NEAR
    ip -n far -batch - <<FAR
link set lo up
link set mid1 up
link set back1 up
addr add 192.0.0.241 peer 192.0.0.240 dev mid1
addr add 192.0.0.243 peer 192.0.0.242 dev back1
route add default via 192.0.0.242 dev back1
FAR
    # incoming frames go to the second router first; frames that return from it are routed as usual
    ip route add default via 192.0.0.241 dev mid0 table 100
    ip rule add iif "$FWDLAB_IN" lookup 100
    # IPv6 frames must not bypass the tunnels; a kernel without IPv6 has no such rule
    ip -6 rule add iif "$FWDLAB_IN" blackhole 2>/dev/null || :
    ways=1 way=mid0
    if [ "$tunnels" -gt 0 ]; then
        prepare
        hops=
        for n in $(seq 0 $((tunnels - 1))); do
            dev=tun$n near=192.0.0.$((2 * n + 2)) far=192.0.0.$((2 * n + 3))
            tunnel
            hops="$hops nexthop via $far dev $dev"
        done
        for try in $(seq 200); do
            [ "$(up)" -lt "$tunnels" ] || break
            sleep 0.1
        done
        [ "$(up)" -eq "$tunnels" ] || fail "only $(up) of $tunnels tunnels came up"
        settle
        # shellcheck disable=SC2086
        ip route replace default table 100 $hops
        ways=$tunnels way=tun
    fi
    # asks the kernel for the route of enough connections to find every path
    found=$(seq 1 $((32 * ways)) |
        sed "s/.*/route get 198.19.0.9 from 198.18.0.9 iif $FWDLAB_IN ipproto udp sport & dport 9/" |
        ip -batch - | grep -o "dev $way[0-9]*" | sort -u | wc -l)
    [ "$found" -eq "$ways" ] || fail "many connections use only $found of $ways paths"
}

# Undoes everything; some of it may be gone already.
back() {
    [ "$tunnels" -eq 0 ] || gone
    while ip rule del iif "$FWDLAB_IN" lookup 100 2>/dev/null; do :; done
    while ip -6 rule del iif "$FWDLAB_IN" blackhole 2>/dev/null; do :; done
    ip route flush table 100 2>/dev/null || :
    for link in mid0 back0 $(devs); do
        ! ip link show dev "$link" >/dev/null 2>&1 || ip link del "$link"
    done
    ! ip netns list | grep -q '^far\( \|$\)' || ip netns del far
}
