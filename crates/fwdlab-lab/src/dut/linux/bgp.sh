# The DUT's routing daemon and two BGP peers, all of them bird. Each peer has its own network namespace and its own link.
#
#   peer1 192.0.2.9  AS 64501 ==== 192.0.2.10  \
#                                                      bird of the DUT, AS 64500
#   peer2 192.0.2.13 AS 64502 ==== 192.0.2.14  /
#
# The caller prepends variables: n views updates hold (parameters of the family), first networks prefix (destinations of test frames: a number,
# the number of /24s, a prefix), hop mac (of the tester), cpus. All files are in $state: NAME.conf, NAME.log, NAME.ctl (for birdc -s), NAME.pid,
# for each of `dut`, `peer1`, `peer2`; `sh $state/clear peer1` is an event for the procedure churn.
set -eu
state=/run/fwdlab-bgp
mkdir -p $state
cd $state

# Exits with this message and the last lines of the daemons' logs.
fail() {
    echo "$1" >&2
    for name in dut peer1 peer2; do tail -n 5 "$name.log" 2>/dev/null | sed "s/^/$name: /" >&2; done
    exit 1
}

# Prints routes for bird, from number $1 to before number $2. Of every ten, six are /24s, one is a /23, two are /22s and one is a /20, which fill
# a /19. Every ten share a community, because neighbours in a real view share attributes.
others() {
    awk -v from="$1" -v to="$2" 'BEGIN {
        split("0 16 20 24 26 27 28 29 30 31", at, " "); split("20 22 22 23 24 24 24 24 24 24", long, " ")
        for (i = from; i < to; i++) {
            block = int(i / 10); k = i % 10 + 1; net = 20 * 65536 + 32 * block + at[k]
            printf "route %d.%d.%d.0/%d blackhole { bgp_community.add((64510, %d)); };\n",
                int(net / 65536), int(net / 256) % 256, net % 256, long[k], block % 65536
        }
    }'
}
# Prints the networks of the test frames.
ours() {
    awk -v first="$first" -v count="$networks" 'BEGIN {
        for (i = 0; i < count; i++) {
            net = first / 256 + i
            printf "route %d.%d.%d.0/24 blackhole;\n", int(net / 65536), int(net / 256) % 256, net % 256
        }
    }'
}

# Starts the daemon of a peer. Arguments: name, its address, the DUT's address, its AS number, the next hop that it announces.
peer() {
    cat > "$1.conf" <<CONF
log "$state/$1.log" all;
timeformat log iso long ms;
router id $2;
debug protocols { states };
protocol device {}
protocol static { ipv4;
    include "$state/$1.routes";
}
protocol bgp dut {
    local $2 as $4;
    neighbor $3 as 64500;
    hold time $hold;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import none; export filter { bgp_next_hop = $5; accept; }; };
}
CONF
    # its network namespace is removed with it
    unshare --net sh -c '
        set -e
        ip link set lo up
        : > "$1.begun"
        until ip link show peer >/dev/null 2>&1; do sleep 0.05; done
        ip addr add "$2/30" dev peer
        ip link set peer up
        if [ "$3" -gt 0 ]; then
            printf "protocol kernel { learn; ipv4 { import all; export none; }; }\n" >> "$1.conf"
            sh ./updates "$3" > updates.log 2>&1 < /dev/null &
            echo $! > updates.pid
        fi
        exec bird -f -c "$1.conf" -s "$1.ctl"
    ' sh "$1" "$2" "$6" >> "$1.log" 2>&1 < /dev/null &
    echo $! > "$1.pid"
    until [ -e "$1.begun" ]; do
        kill -0 $! 2>/dev/null || fail "the daemon $1 has not started"
        sleep 0.05
    done
    ip link add "$1" type veth peer name peer netns $!
    ip addr add "$3/30" dev "$1"
    ip link set "$1" up
}

# Adds and removes a thousand networks, one after the other, at the given number of changes per second. The peer's daemon learns them from its kernel.
cat > updates <<'UPDATES'
awk -v rate="$1" 'function now(up) { getline up < "/proc/uptime"; close("/proc/uptime"); return up + 0 }
BEGIN {
    for (began = now(); ; system("sleep 0.02")) {
        for (due = (now() - began) * rate; sent < due; sent++)
            printf "route %s blackhole 120.%d.%d.0/24\n", int(sent / 1000) % 2 ? "del" : "add", int(sent % 1000 / 250), sent % 250
        fflush()
    }
}' | ip -batch -
UPDATES

# Writes the script of an event: it clears the session with peer $1 and waits until its routes are back. It prints times, taken from the daemon's
# log and from its tables, which it reads ten times per second.
{
    echo "n=$n state=$state"
    cat <<'CLEAR'
set -eu
cd "$state"
is_said=$(wc -l < dut.log)
since() { tail -n "+$((is_said + 1))" dut.log; }
imported() { birdc -r -s dut.ctl show protocols all "$1" | sed -n 's/^ *Routes: *\([0-9]*\) imported.*/\1/p'; }
is_alive() {
    kill -0 "$(cat dut.pid)" 2>/dev/null || { echo "the daemon dut has ended:" >&2; tail -n 5 dut.log >&2; exit 1; }
}
birdc -s dut.ctl restart "$1"
until since | grep -q "$1: State changed to up"; do is_alive; sleep 0.05; done
until learned=$(imported "$1") && [ "${learned:-0}" -ge "$n" ]; do is_alive; sleep 0.1; done
again=$(date +%s.%N)
since | sed -n "s/^\([-0-9]* [0-9:.]*\) <[A-Z]*> $1: State changed to \(.*\)/\1 \2/p" | while read -r day time is; do
    echo "moment $(date -d "$day $time" +%s.%N) $1: $is"
done
echo "moment $again $1: all $n routes are learned again"
CLEAR
} > clear

case $views in
same) { ours; others 0 $((n - networks)); } > peer1.routes; ln -sf peer1.routes peer2.routes; routes=$n ;;
*) { ours; others 0 $((n - networks)); } > peer1.routes; others "$n" $((2 * n)) > peer2.routes; routes=$((2 * n)) ;;
esac

# frames follow the daemon's routes only
ip route flush root "$prefix" proto boot dev "$FWDLAB_OUT"
# the second path to the tester
ip addr add 192.0.2.1/30 dev "$FWDLAB_OUT"
ip neigh replace 192.0.2.2 lladdr "$mac" nud permanent dev "$FWDLAB_OUT"

cat > dut.conf <<CONF
log "$state/dut.log" all;
timeformat log iso long ms;
router id 192.0.2.1;
debug protocols { states };
protocol device {}
protocol direct { ipv4; interface "$FWDLAB_OUT"; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }
template bgp peer {
    local as 64500;
    hold time $hold;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp peer1 from peer {
    neighbor 192.0.2.9 as 64501;
    ipv4 { gateway recursive; import filter { bgp_local_pref = 200; accept; }; export none; };
}
protocol bgp peer2 from peer {
    neighbor 192.0.2.13 as 64502;
    ipv4 { gateway recursive; import all; export none; };
}
CONF
peer peer1 192.0.2.9 192.0.2.10 64501 "$hop" "$updates"
peer peer2 192.0.2.13 192.0.2.14 64502 192.0.2.2 0
${cpus:+taskset -c "$cpus"} bird -f -c dut.conf -s dut.ctl >> dut.log 2>&1 < /dev/null &
echo $! > dut.pid

in_daemon() { birdc -r -s dut.ctl show route primary count where source = RTS_BGP 2>/dev/null | sed -n 's/^\([0-9]*\) of .* in table master4$/\1/p'; }
of_peer() { birdc -r -s dut.ctl show protocols all "$1" 2>/dev/null | sed -n 's/^ *Routes: *\([0-9]*\) imported.*/\1/p'; }
in_kernel() { ip -4 route show proto bird | wc -l; }
# compares $1 with the expected number; routes that are added and removed are counted as well
is_all() { [ "${1:-0}" -ge "$2" ] && [ "$1" -le $(($2 + (updates > 0) * 1000)) ]; }
waited() { cut -d. -f1 /proc/uptime; }
until=$(($(waited) + 240))
while :; do
    for name in dut peer1 peer2; do
        kill -0 "$(cat $name.pid)" 2>/dev/null || fail "the daemon $name has ended"
    done
    peer1=$(of_peer peer1) peer2=$(of_peer peer2) best=$(in_daemon) kernel=none
    if is_all "$peer1" "$n" && is_all "$peer2" "$n" && is_all "$best" "$routes"; then
        kernel=$(in_kernel)
        ! is_all "$kernel" "$routes" || break
    fi
    [ "$(waited)" -lt "$until" ] ||
        fail "two peers announce $n routes each, $routes in all: the daemon received ${peer1:-none} and ${peer2:-none} and uses ${best:-none}; the kernel has $kernel"
    sleep 0.2
done

# the exit of a daemon is a result
for name in dut peer1 peer2; do
    for kind in pid log; do ln -sf "$state/$name.$kind" "$FWDLAB_DAEMONS/bird-$name.$kind"; done
done
