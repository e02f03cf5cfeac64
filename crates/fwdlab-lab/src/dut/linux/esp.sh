# IPsec tunnels (ESP, AES-128-GCM) for gateway.sh. Each has its own port (xfrm) and its own outer addresses, so that a card that spreads
# received frames over queues sees several flows. There is no negotiation: both ends have the key.
lacks() {
    if said=$(ip link add tun0 type xfrm dev lo if_id 1 2>&1); then
        ip link del tun0
    else
        echo "its kernel, $(uname -r), makes no port of IPsec ($said); have it load the module xfrm_interface, or measure where there is one"
    fi
    n=0
    if said=$(state ip add 2>&1); then
        state ip del
    else
        echo "its kernel, $(uname -r), takes no ESP with AES-GCM ($said); have it load the modules esp4 and gcm, or measure where they are"
    fi
}

# Adds or deletes the state of tunnel $n at one end: the first words are the command for that end.
state() {
    ends="src 192.0.0.$((128 + 2 * n)) dst 192.0.0.$((129 + 2 * n))" id=$((n + 1)) spi=$((256 + n))
    case $2 in
    # shellcheck disable=SC2086
    add) $1 xfrm state add $ends proto esp spi $spi reqid $id mode tunnel if_id $id aead "rfc4106(gcm(aes))" \
        "0x000102030405060708090a0b0c0d0e0f101112$(printf %02x "$n")" 128 ;;
    # shellcheck disable=SC2086
    *) $1 xfrm state del $ends proto esp spi $spi ;;
    esac
}

# Other systems load the drivers of their processor at boot.
prepare() { [ -z "$guest" ] || modprobe -q aesni_intel || :; }

tunnel() {
    id=$((n + 1)) here=192.0.0.$((128 + 2 * n)) there=192.0.0.$((129 + 2 * n))
    through="tmpl src $here dst $there proto esp reqid $id mode tunnel"
    ip addr add $here peer $there dev mid0
    ip -n far addr add $there peer $here dev mid1
    state ip add
    state "ip -n far" add
    # shellcheck disable=SC2086
    ip xfrm policy add dir out src 0.0.0.0/0 dst 0.0.0.0/0 if_id $id $through
    # shellcheck disable=SC2086
    ip -n far xfrm policy add dir fwd src 0.0.0.0/0 dst 0.0.0.0/0 if_id $id $through
    ip link add "$dev" type xfrm dev mid0 if_id $id
    ip -n far link add "$dev" type xfrm dev mid1 if_id $id
    ip addr add "$near" peer "$far" dev "$dev"
    ip -n far addr add "$far" peer "$near" dev "$dev"
    ip link set "$dev" up
    ip -n far link set "$dev" up
}

# Counts the tunnels whose state exists at both ends.
up() {
    of() { $1 xfrm state list | grep -c '^src 192\.0\.0\.' || :; }
    here=$(of ip) there=$(of "ip -n far")
    [ "$here" -lt "$there" ] && echo "$here" || echo "$there"
}

settle() { :; }

fail() {
    echo "$1" >&2
    exit 1
}

gone() {
    for n in $(seq 0 $((tunnels - 1))); do
        ip xfrm policy del dir out src 0.0.0.0/0 dst 0.0.0.0/0 if_id $((n + 1)) 2>/dev/null || :
        state ip del 2>/dev/null || :
    done
}
