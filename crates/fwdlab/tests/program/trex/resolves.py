"""TRex's own client finds its next hops through ARP, and pings through a DUT. Arguments: TCP ports of the RPC server and the publisher."""

import json
import sys

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.stl.api import STLClient

found = {}
c = STLClient(server="127.0.0.1", sync_port=int(sys.argv[1]), async_port=int(sys.argv[2]), verbose_level="error")
c.connect()
c.reset(ports=[0, 1])
info = lambda port: [c.get_port_info(ports=[port])[0][key] for key in ("src_ipv4", "arp", "layer_mode")]
c.set_service_mode(ports=[0, 1])
c.set_l3_mode(port=0, src_ipv4="198.18.0.2", dst_ipv4="198.18.0.1")
c.set_l3_mode(port=1, src_ipv4="198.19.0.2", dst_ipv4="198.19.0.1")
found["resolved"] = [info(0), info(1)]
pings = c.ping_ip(src_port=1, dst_ip="198.18.0.1", pkt_size=1000, count=2, interval_sec=0.1)
found["beyond"] = [ping.state == ping.SUCCESS for ping in pings]
found["rtt"] = all(0 < ping.rtt < 1000 for ping in pings)
c.ports[0].set_l3_mode("198.18.0.2", "198.18.0.3")
found["unresolved"] = info(0)
c.set_l2_mode(port=0, dst_mac="02:00:00:00:00:99")
found["l2"] = info(0)
c.conf_ipv6(0, True, "2001:db8::1")
found["ipv6"] = c.get_port_attr(port=0)["ipv6"]
c.set_service_mode(ports=[0, 1], enabled=False)
c.disconnect()
print(json.dumps(found))
