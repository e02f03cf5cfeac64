"""TRex's own client sends through a DUT, reads counters, changes rates and stops. Arguments: TCP ports of the RPC server and the publisher."""

import json
import sys
import tempfile
import time

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.stl.api import (
    STLClient,
    STLError,
    STLFlowLatencyStats,
    STLFlowStats,
    STLPktBuilder,
    STLStream,
    STLTXCont,
    STLTXSingleBurst,
)
from scapy.all import IP, UDP, Ether, wrpcap

found = {}
c = STLClient(server="127.0.0.1", sync_port=int(sys.argv[1]), async_port=int(sys.argv[2]), verbose_level="error")
watching = STLClient(username="watching", server="127.0.0.1", sync_port=int(sys.argv[1]), async_port=int(sys.argv[2]), verbose_level="error")
c.connect()
watching.connect()
c.reset(ports=[0, 1])


def packet(src, dst, bytes_=60):
    header = Ether() / IP(src=src, dst=dst) / UDP(dport=12, sport=1025, chksum=0)
    return STLPktBuilder(pkt=header / ("x" * (bytes_ - len(header))))


there, back = ("16.0.0.1", "48.0.0.1"), ("48.0.0.1", "16.0.0.1")

# bursts in both directions, counted by group, and with latency
c.add_streams([
    STLStream(packet=packet(*there), mode=STLTXSingleBurst(total_pkts=2000, pps=4000), flow_stats=STLFlowStats(pg_id=7)),
    STLStream(packet=packet(*there, bytes_=200), mode=STLTXSingleBurst(total_pkts=600, pps=1200), flow_stats=STLFlowLatencyStats(pg_id=8)),
    STLStream(packet=packet(*there, bytes_=1000), mode=STLTXSingleBurst(total_pkts=300, pps=600)),
], ports=[0])
c.add_streams(STLStream(packet=packet(*back), mode=STLTXSingleBurst(total_pkts=1000, pps=2000), flow_stats=STLFlowStats(pg_id=7)), ports=[1])
c.clear_stats()
c.start(ports=[0, 1], synchronized=True)
found["active"] = c.is_traffic_active(ports=[0, 1])
c.wait_on_traffic(ports=[0, 1], timeout=30)
found["over"] = not c.is_traffic_active(ports=[0, 1])
time.sleep(0.2)
stats = c.get_stats()
found["packets"] = [stats[p][k] for p in (0, 1) for k in ("opackets", "ipackets")]
found["bytes"] = [stats[p][k] for p in (0, 1) for k in ("obytes", "ibytes")]
seven, eight = stats["flow_stats"][7], stats["flow_stats"][8]
found["group 7"] = [seven[k][p] for k in ("tx_pkts", "rx_pkts") for p in (0, 1)]
found["group 7 bytes"] = [seven[k][p] for k in ("tx_bytes", "rx_bytes") for p in (0, 1)]
found["group 8"] = [eight[k][p] for k in ("tx_pkts", "rx_pkts") for p in (0, 1)]
lat = stats["latency"][8]
found["errors"] = lat["err_cntrs"]
found["times"] = sum(lat["latency"]["histogram"].values())
found["order"] = [lat["latency"][k] for k in ("total_min", "average", "total_max")]
found["hdrh"] = lat["latency"]["hdrh"][:4]

# a second time: counters continue, and sequence numbers restart without an error
c.start(ports=[0])
c.wait_on_traffic(ports=[0], timeout=30)
time.sleep(0.2)
stats = c.get_stats()
found["twice"] = [stats["flow_stats"][7]["rx_pkts"][1], stats["flow_stats"][8]["rx_pkts"][1], stats["latency"][8]["err_cntrs"]["dropped"]]

# its rate changes while it sends; latency streams keep theirs
c.reset(ports=[0, 1])
c.add_streams([
    STLStream(packet=packet(*there), mode=STLTXCont(pps=1000), flow_stats=STLFlowStats(pg_id=1)),
    STLStream(packet=packet(*there), mode=STLTXCont(pps=100), flow_stats=STLFlowLatencyStats(pg_id=2)),
], ports=[0])


def sent(*loads):
    """Frame rates of the two groups over half a second. On a busy host, a sender that had to wait
    sends the missing frames later: the mean of up to five seconds converges to the load."""
    before, began = c.get_pgid_stats([1, 2])["flow_stats"], time.monotonic()
    while True:
        time.sleep(0.5)
        after, took = c.get_pgid_stats([1, 2])["flow_stats"], time.monotonic() - began
        rates = [round((after[g]["tx_pkts"][0] - before[g]["tx_pkts"][0]) / took) for g in (1, 2)]
        if took > 5 or all(abs(rate - load) <= 0.2 * load for rate, load in zip(rates, loads)):
            return rates


c.start(ports=[0], mult="2100pps")
found["2100pps"] = sent(2000, 100)
c.update(ports=[0], mult="4")
found["times 4"] = sent(4000, 100)
c.update(ports=[0], mult="50%-")
found["half"] = sent(2000, 100)
c.pause(ports=[0])
found["paused"] = sent()
found["paused state"] = c.ports[0].get_port_state_name()
c.resume(ports=[0])
found["resumed"] = sent(2000, 100)
first = [sorted(c.ports[0].streams)[0]]
c.pause_streams(0, first)
found["one held"] = sent(0, 100)
c.resume_streams(0, first)
found["not held"] = sent(2000, 100)
c.stop(ports=[0])
found["after"] = sent()

# a load that the port cannot carry is refused unless it is forced
c.remove_all_streams(ports=[0])
c.add_streams(STLStream(packet=packet(*there), mode=STLTXCont(pps=1000)), ports=[0])
try:
    c.start(ports=[0], mult="120%")
    found["too much"] = None
except STLError as error:
    found["too much"] = str(error)
c.reset(ports=[0, 1])

# a thousand streams
c.add_streams([STLStream(packet=packet(*there), mode=STLTXCont(pps=1)) for _ in range(1000)], ports=[0])
c.start(ports=[0], mult="1")
c.stop(ports=[0])

# a capture file on the server's machine, three times
c.reset(ports=[0, 1])
c.clear_stats()
with tempfile.TemporaryDirectory() as folder:
    file = folder + "/twenty.pcap"
    wrpcap(file, [Ether() / IP(src=there[0], dst=there[1]) / UDP(dport=12, sport=n) / ("x" * 30) for n in range(20)])
    c.push_remote(file, ports=[0], ipg_usec=2000, count=3)
    # the state as reported by the server
    found["playing"] = c.ports[0].transmit("get_port_status", params={"port_id": 0}).data()["state"]
    c.wait_on_traffic(ports=[0], timeout=20)
time.sleep(0.2)
stats = c.get_stats()
found["played"] = [stats[0]["opackets"], stats[1]["ipackets"], stats[1]["ibytes"]]
found["xstats"] = c.get_xstats(0)["tx_packets"] > 0
c.disconnect(stop_traffic=True)
# a client that only watches gets the event
found["watching saw"] = watching.ports[0].get_port_state_name()
watching.disconnect()
print(json.dumps(found, default=list))
