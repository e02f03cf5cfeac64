"""The package pytrex, unmodified: connects, acquires ports, sends, captures and releases them. Arguments: TCP ports of the RPC server and the publisher."""

import json
import sys

from pytrex.trex_app import TrexApp
from pytrex.trex_stream import TrexRateType, TrexTxType

found = {}
server = TrexApp("me", "127.0.0.1", int(sys.argv[1]), int(sys.argv[2])).server
server.connect()
found["ports"] = server.get_system_info()["port_count"]
ports = list(server.reserve_ports([0, 1], force=True, reset=True).values())
for port in ports:
    stream = port.add_stream("s")
    stream.set_rate(TrexRateType.pps, 100)
    stream.set_tx_type(TrexTxType.single_burst, packets=50)
    port.write_streams()
found["state"] = str(ports[0].get_port_state())
ports[1].start_capture(limit=20)
server.clear_stats()
ports[0].start_transmit(blocking=True)
found["sent"] = ports[0].read_stats()["opackets"]
found["received"] = ports[1].read_stats()["ipackets"]
found["xstats"] = ports[0].read_xstats()["tx_good_packets"] >= 50
packets = ports[1].stop_capture(limit=20)
found["captured"] = len(packets)
found["relative"] = all(0 <= packet["rel_ts"] < 60 for packet in packets)
ports[1].set_service_mode(False)
server.disconnect()
print(json.dumps(found))
