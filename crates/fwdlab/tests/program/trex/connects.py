"""TRex's own client, unmodified, against fwdlab: it connects, takes ports, loads streams, and lets go.

Arguments: ports of the RPC and the publisher. What it found is the last line it prints, as JSON, for the test that started it.
"""

import json
import sys
import time

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.stl.api import STLClient, STLError, STLPktBuilder, STLStream, STLTXCont
from scapy.all import IP, UDP, Ether


def client(user):
    return STLClient(
        username=user,
        server="127.0.0.1",
        sync_port=int(sys.argv[1]),
        async_port=int(sys.argv[2]),
        verbose_level="error",
    )


def refused(work):
    try:
        work()
    except STLError as error:
        return str(error)
    return None


found = {}
alice, bob = client("alice"), client("bob")
alice.connect()
bob.connect()
found["connected"] = alice.is_connected() and bob.is_connected()
found["ports"] = alice.get_port_count()
alice.reset(ports=[0, 1])
found["owned"] = alice.get_acquired_ports()
found["bob is refused"] = refused(lambda: bob.acquire(ports=[0]))

frame = Ether() / IP(src="198.18.0.1", dst="198.19.0.1") / UDP(dport=9, sport=1025) / ("x" * 18)
stream = STLStream(packet=STLPktBuilder(pkt=frame), mode=STLTXCont(pps=28))
many = [STLStream(packet=STLPktBuilder(pkt=frame), mode=STLTXCont(pps=28)) for _ in range(1000)]
found["id"] = alice.add_streams(stream, ports=[0])
alice.add_streams(many, ports=[1])
found["link"] = alice.get_port_info(ports=[0])[0]["link"]
began = time.monotonic()
for _ in range(100):
    alice.get_stats()
found["ms per get_stats"] = round((time.monotonic() - began) * 10, 2)
stats = alice.get_stats()
found["opackets"] = [stats[0]["opackets"], stats[1]["opackets"]]
found["xstats"] = sorted(alice.get_xstats(0))

# the streams are the server's: who takes the port gets them
alice.disconnect(stop_traffic=False, release_ports=False)
bob.acquire(ports=[0, 1], force=True)
found["bob owns"] = bob.get_acquired_ports()
found["bob sees"] = [len(bob.ports[0].streams), len(bob.ports[1].streams)]
# libzmq asks every five seconds whether we are there
time.sleep(float(sys.argv[3]))
found["bob is still there"] = bob.is_connected() and bob.get_stats() is not None
bob.remove_all_streams(ports=[0, 1])
bob.release(ports=[0, 1])
bob.disconnect()
print(json.dumps(found))
