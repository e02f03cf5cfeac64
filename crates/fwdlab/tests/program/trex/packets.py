"""TRex's own clients take over ports from each other, push packets and capture them.

Arguments: ports of the RPC and the publisher, and a file for a capture. What was found is the last line, as JSON.
"""

import base64
import json
import sys
import time

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.stl.api import STLClient, STLError, STLPktBuilder, STLStream, STLTXCont
from scapy.all import ARP, ICMP, IP, UDP, Dot1Q, Ether, rdpcap

found = {}


def client(user):
    there = {"server": "127.0.0.1", "sync_port": int(sys.argv[1]), "async_port": int(sys.argv[2])}
    one = STLClient(username=user, verbose_level="error", **there)
    one.connect()
    return one


def refused(work):
    try:
        work()
    except STLError as error:
        return str(error)
    return None


alice, bob = client("alice"), client("bob")
found["connected"] = alice.is_connected() and bob.is_connected()
found["ports"] = alice.get_port_count()
alice.reset(ports=[0, 1])
found["owned"] = alice.get_acquired_ports()
found["bob is refused"] = refused(lambda: bob.acquire(ports=[0]))
frame = Ether() / IP(src="198.18.0.1", dst="198.19.0.1") / UDP(dport=9, sport=1025) / ("x" * 18)
one = lambda: STLStream(packet=STLPktBuilder(pkt=frame), mode=STLTXCont(pps=28))
found["id"] = alice.add_streams(one(), ports=[0])
alice.add_streams([one() for _ in range(1000)], ports=[1])
stats = alice.get_stats()
found["opackets"] = [stats[0]["opackets"], stats[1]["opackets"]]
found["xstats"] = "tx_good_packets" in alice.get_xstats(0)
# the server has the streams: they pass to the client that takes the port
alice.disconnect(stop_traffic=False, release_ports=False)
bob.acquire(ports=[0, 1], force=True)
found["bob owns"] = bob.get_acquired_ports()
found["bob sees"] = [len(bob.ports[0].streams), len(bob.ports[1].streams)]
bob.remove_all_streams(ports=[0, 1])
bob.release(ports=[0, 1])
bob.disconnect()

c = client("carol")
c.reset(ports=[0, 1])


def rpc(method, **params):
    rc = c._transmit(method, params)
    return {"data": rc.data()} if rc else {"error": str(rc.err())}


def fetched(capture_id):
    packets = []
    c.stop_capture(capture_id, output=packets)
    return packets


found["map without L3"] = c.map_ports(ports=[0, 1])["bi"]
# as with TRex's server, captures need no service mode
c.stop_capture(c.start_capture(rx_ports=[1], limit=10)["id"])

c.set_service_mode(ports=[0, 1], enabled=True)
found["service"] = c.get_port_info(ports=[0])[0]["rx_filter_mode"]
frames = [
    Ether(src="02:00:00:00:0a:01", dst="02:00:00:00:0b:01") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=9) / ("u%03d" % n * 12)
    for n in range(40)
] + [
    Ether(src="02:00:00:00:0a:02", dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="10.0.0.9"),
    Ether(src="02:00:00:00:0a:03", dst="02:00:00:00:0b:01") / Dot1Q(vlan=7) / IP(src="10.0.0.1", dst="10.0.0.3") / ICMP() / ("i" * 40),
    Ether(src="02:00:00:00:0a:04", dst="02:00:00:00:0b:01") / Dot1Q(vlan=7) / Dot1Q(vlan=8) / IP(dst="10.0.0.3") / UDP(dport=9) / ("v" * 1300),
]
sent = [bytes(frame) for frame in frames]

filters = {
    "": len(sent),
    "arp or (vlan and arp) or (vlan and arp)": 1,
    "icmp or (vlan and icmp) or (vlan and icmp)": 1,
    "vlan 7": 2,
    "vlan and vlan 8": 1,
    "udp port 9 && udp[8:4] = 0x75303037": 1,
    "ether[6:4]=0x02000000 and greater 1000": 1,
    "tcp": 0,
}
ids = {words: c.start_capture(rx_ports=[1], limit=1000, bpf_filter=words)["id"] for words in filters}
going = c.start_capture(tx_ports=[0], rx_ports=[0], limit=1000)["id"]
small = c.start_capture(rx_ports=[1], limit=5, mode="cyclic")["id"]
found["eleventh"] = refused(lambda: c.start_capture(rx_ports=[1], limit=5))
found["service refused"] = refused(lambda: c.set_service_mode(ports=[1], enabled=False))
before = c.get_server_system_info() and rpc("ping")["data"]["ts"]
c.push_packets(frames, ports=[0], ipg_usec=100)
time.sleep(0.2)
after = rpc("ping")["data"]["ts"]
found["counts"] = {words: c.get_capture_status()[ids[words]]["count"] for words in filters}
found["wanted"] = filters
packets = fetched(ids.pop(""))
found["byte for byte"] = [p["binary"] for p in packets] == sent
found["times"] = before <= packets[0]["ts"] <= packets[-1]["ts"] <= after
found["said"] = [packets[0][key] for key in ("origin", "port", "index", "wirelen")]
packets = fetched(going)
going = [p for p in packets if p["origin"] == "TX"]
found["going"] = [p["binary"] for p in going] == sent
# where they arrive, a busy kernel hands over several at once
found["gaps"] = going[-1]["ts"] - going[0]["ts"] >= 0.00419
packets = fetched(small)
found["the last"] = [p["binary"] for p in packets] == sent[-5:]
vlan = ids.pop("vlan 7")
c.stop_capture(vlan, output=sys.argv[3])
found["file"] = [bytes(packet) for packet in rdpcap(sys.argv[3])] == sent[-2:]
c.remove_all_captures()
found["left"] = c.get_capture_status()

# fixed mode keeps the first packets; fetched packets are cut to the requested size; the port's
# addresses are filled in
fixed = c.start_capture(rx_ports=[1], limit=3, mode="fixed")["id"]
c.push_packets([bytes(14) + bytes([n] * 50) for n in range(9)], ports=[0])
time.sleep(0.1)
cut = rpc("capture", command="fetch", capture_id=fixed, pkt_limit=2, snaplen=16)["data"]
found["cut"] = [base64.b64decode(p["binary"]).hex() for p in cut["pkts"]]
found["pending"] = cut["pending"]
found["matched"] = [c.get_capture_status()[fixed][key] for key in ("matched", "fetched", "count")]
c.remove_all_captures()

# the queue of a port
c.set_rx_queue(ports=[1], size=4)
c.push_packets(frames[:6], ports=[0])
time.sleep(0.1)
found["queue"] = [p["binary"] for p in c.ports[1].get_rx_queue_pkts().data()] == sent[2:6]
found["queue refused"] = refused(lambda: c.set_service_mode(ports=[1], enabled=False))
c.remove_rx_queue(ports=[1])

# requests that no well-behaved client sends
push = lambda packets, **more: rpc("push_pkts", port_id=0, pkts=packets, force=True, **more)
binary = lambda length: {"binary": base64.b64encode(bytes(length)).decode(), "use_port_dst_mac": False, "use_port_src_mac": False}
found["refused"] = {
    "13": push([binary(13)]),
    "9239": push([binary(9239)]),
    "no base64": push([{"binary": "?"}]),
    "too long": push([binary(60)] * 11, ipg_usec=100_000),
    "filter": rpc("capture", command="start", limit=1, mode="fixed", tx=[], rx=[0], filter="foo bar("),
    "limit": rpc("capture", command="start", limit=10**12, mode="fixed", tx=[], rx=[0], filter=""),
    "port": rpc("capture", command="start", limit=1, mode="fixed", tx=[], rx=[7], filter=""),
}
found["pushed"] = push([binary(60)], ipg_usec=0)["data"]["sent"]

c.set_port_attr(ports=[0], promiscuous=True, multicast=True)
c.set_port_attr(ports=[1], promiscuous=False)
found["attributes"] = [c.get_port_attr(port=p)["prom"] for p in (0, 1)]
for what, attr in (("link", {"link_status": {"up": False}}), ("led", {"led_status": {"on": True}}), ("flow", {"flow_ctrl_mode": {"mode": 3}})):
    found["refused"][what] = rpc("set_port_attr", port_id=0, handler=c.ports[0].handler, attr=attr)
c.set_vlan(ports=[0], vlan=[3, 4])
found["vlan"] = c.get_port_attr(port=0)["vlan"]
c.set_service_mode(ports=[0, 1], enabled=False)
c.disconnect()
print(json.dumps(found))
