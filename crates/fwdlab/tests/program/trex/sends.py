"""Compares the frames that fwdlab sends for TRex's own client, byte by byte, with TRex's documentation.

Arguments: port of the RPC, of the publisher, and the capture file that somebody else fills with what leaves the port. Every case
sends a burst; its number is in the last byte of the source MAC address. What was found is the last line, as JSON.
"""

import json
import struct
import sys
import time

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.stl.api import (
    STLClient,
    STLError,
    STLFlowLatencyStats,
    STLFlowStats,
    STLPktBuilder,
    STLScVmRaw,
    STLStream,
    STLTXCont,
    STLTXMultiBurst,
    STLTXSingleBurst,
    STLVmFixChecksumHw,
    STLVmFixIpv4,
    STLVmFlowVar,
    STLVmFlowVarRepeatableRandom,
    STLVmTrimPktSize,
    STLVmTupleGen,
    STLVmWrFlowVar,
    STLVmWrMaskFlowVar,
)
from trex.stl.trex_stl_packet_builder_scapy import CTRexVmInsFixHwCs
from scapy.all import IP, UDP, Ether, RawPcapReader

PORT = "02:00:00:00:00:0a"
NEXT = "02:00:00:00:00:0b"


def frame(case, payload=18, source=None):
    mac = source or "02:00:00:00:ff:%02x" % case
    ip = IP(src="16.0.0.1", dst="48.0.0.1")
    return Ether(src=mac, dst=NEXT) / ip / UDP(dport=12, sport=1025, chksum=0) / ("x" * payload)


def checksum(data):
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


# the documentation of variables


def counter(init, low, high, step, up=True):
    """Values from init on, with wrap-around; the range is extended to a multiple of the step."""
    while (high - low + 1) % step:
        if up:
            high += 1
        else:
            low -= 1
    size, value = high - low + 1, init
    while True:
        yield value
        value = low + (value - low + (step if up else -step)) % size


def listed(values, step):
    at = 0
    while True:
        yield values[at]
        at = (at + step) % len(values)


def tuples(ip_low, ip_high, port_low, port_high, limit):
    while True:
        ip, port = ip_low, port_low
        for _ in range(limit):
            yield ip, port
            ip += 1
            if ip > ip_high:
                ip = ip_low
                port = port + 1 if port < port_high else port_low


def repeatable(seed, size, low, high, limit):
    """TRex's random generator: 15 bits per draw, two draws for four bytes."""
    while True:
        x = seed

        def draw():
            nonlocal x
            x = (x * 214013 + 2531011) & 0xFFFFFFFF
            return x >> 16 & 0x7FFF

        for _ in range(limit):
            value = draw() if size <= 2 else draw() * 65536 + draw()
            yield low + value % (high - low + 1)


def digits():
    """Two digits: the second one advances when the first one wraps."""
    while True:
        for high in (1, 3, 5):
            for low in range(10):
                yield low, high


def write(bytes_, at, value, size, big=True):
    value &= (1 << 8 * size) - 1
    out = bytearray(bytes_)
    out[at : at + size] = value.to_bytes(size, "big" if big else "little")
    return bytes(out)


def with_ip_checksum(bytes_):
    out = bytearray(bytes_)
    out[24:26] = b"\0\0"
    out[24:26] = (0xFFFF - checksum(bytes(out[14:34]))).to_bytes(2, "big")
    return bytes(out)


found, cases = {}, []


def case(program, expected, count, payload=18, **options):
    """Sends a burst with this program; `expected` returns the expected frame for the template and its number."""
    number = len(cases) + 1
    packet = frame(number, payload)
    vm = STLScVmRaw(program, **{k: options.pop(k) for k in list(options) if k == "cache_size"})
    cases.append((number, STLStream(
        packet=STLPktBuilder(pkt=packet, vm=vm),
        mode=STLTXSingleBurst(total_pkts=count, pps=20000),
        **options,
    ), bytes(packet), expected, count))


def series(generator):
    """Its value for each frame number."""
    values = []

    def value(n):
        while len(values) <= n:
            values.append(next(generator))
        return values[n]

    return value


v = series(counter(5, 3, 20, 4))
case([STLVmFlowVar("v", init_value=5, min_value=3, max_value=20, step=4, size=1, op="inc"),
      STLVmWrFlowVar("v", pkt_offset=50)], lambda t, n, v=v: write(t, 50, v(n), 1), 40)
v = series(counter(100, 90, 110, 2, up=False))
case([STLVmFlowVar("v", init_value=100, min_value=90, max_value=110, step=2, size=2, op="dec"),
      STLVmWrFlowVar("v", pkt_offset=50, add_val=-7, is_big=False)],
     lambda t, n, v=v: write(t, 50, v(n) - 7, 2, big=False), 40)
v = series(listed([7, 9, 11, 200, 3], 2))
case([STLVmFlowVar("v", value_list=[7, 9, 11, 200, 3], size=4, step=2, op="inc"),
      STLVmWrFlowVar("v", pkt_offset="IP.src"), STLVmFixIpv4(offset="IP")],
     lambda t, n, v=v: with_ip_checksum(write(t, 26, v(n), 4)), 20)
v = series(tuples(0x10000001, 0x10000004, 1025, 1030, 9))
case([STLVmTupleGen(ip_min="16.0.0.1", ip_max="16.0.0.4", port_min=1025, port_max=1030, limit_flows=9, name="t"),
      STLVmWrFlowVar("t.ip", pkt_offset="IP.src"), STLVmFixIpv4(offset="IP"),
      STLVmWrFlowVar("t.port", pkt_offset="UDP.sport")],
     lambda t, n, v=v: write(with_ip_checksum(write(t, 26, v(n)[0], 4)), 34, v(n)[1], 2), 30)
for size, seed, low, high, limit in [(2, 0, 1024, 65535, 7), (4, 4661, 0x10000001, 0x100000FF, 12)]:
    v = series(repeatable(seed, size, low, high, limit))
    case([STLVmFlowVarRepeatableRandom("v", size=size, limit=limit, seed=seed, min_value=low, max_value=high),
          STLVmWrFlowVar("v", pkt_offset=46)],
         lambda t, n, v=v, size=size: write(t, 46, v(n), size), 30)
v = series(counter(1, 1, 200, 1))
case([STLVmFlowVar("v", min_value=1, max_value=200, size=2, op="inc"),
      STLVmWrMaskFlowVar("v", pkt_offset=48, pkt_cast_size=2, mask=0x0FF0, shift=4, add_value=3)],
     lambda t, n, v=v: write(t, 48, int.from_bytes(t[48:50], "big") & ~0x0FF0 | (v(n) + 3) << 4 & 0x0FF0, 2), 30)
v = series(counter(64, 64, 90, 3))
case([STLVmFlowVar("v", min_value=64, max_value=90, step=3, size=2, op="inc"), STLVmTrimPktSize("v"),
      STLVmWrFlowVar("v", pkt_offset="IP.len", add_val=-14), STLVmFixIpv4(offset="IP"),
      STLVmWrFlowVar("v", pkt_offset="UDP.len", add_val=-34)],
     lambda t, n, v=v: write(with_ip_checksum(write(t, 16, v(n) - 14, 2)), 38, v(n) - 34, 2)[: v(n)], 30, payload=60)
v = series(digits())
case([STLVmFlowVar("low", min_value=0, max_value=9, size=1, op="inc", next_var="high"),
      STLVmFlowVar("high", value_list=[1, 3, 5], size=1, op="inc", split_to_cores=False),
      STLVmWrFlowVar("low", pkt_offset=51), STLVmWrFlowVar("high", pkt_offset=50)],
     lambda t, n, v=v: write(write(t, 51, v(n)[0], 1), 50, v(n)[1], 1), 65)
v = series(counter(0, 0, 255, 1))
case([STLVmFlowVar("v", min_value=0, max_value=255, size=1, op="inc"), STLVmWrFlowVar("v", pkt_offset=50)],
     lambda t, n, v=v: write(t, 50, v(n % 5), 1), 20, cache_size=5)
v = series(counter(1, 1, 60000, 1))


def udp_checksum(bytes_):
    out = bytearray(bytes_)
    out[40:42] = b"\0\0"
    pseudo = bytes(out[26:34]) + b"\0\x11" + bytes(out[38:40])
    out[40:42] = (0xFFFF - checksum(pseudo + bytes(out[34:]))).to_bytes(2, "big")
    return bytes(out)


case([STLVmFlowVar("v", min_value=1, max_value=60000, size=2, op="inc"), STLVmWrFlowVar("v", pkt_offset="UDP.sport"),
      STLVmFixChecksumHw(l3_offset="IP", l4_offset="UDP", l4_type=CTRexVmInsFixHwCs.L4_TYPE_UDP)],
     lambda t, n, v=v: udp_checksum(with_ip_checksum(write(t, 34, v(n), 2))), 20)


def marked(bytes_, mark):
    return with_ip_checksum(write(write(bytes_, 15, 1, 1), 18, mark, 2))


case([], lambda t, n: marked(t, 0xFC00), 10, flow_stats=STLFlowStats(pg_id=5))


def timed(bytes_, n):
    trailer = struct.pack("<BBHI", 0xAB, 1, 0, (0xFFFFFFFE + n) & 0xFFFFFFFF)
    return marked(bytes_, 0xFFFF)[:-16] + trailer


case([], timed, 10, flow_stats=STLFlowLatencyStats(pg_id=6))

c = STLClient(server="127.0.0.1", sync_port=int(sys.argv[1]), async_port=int(sys.argv[2]), verbose_level="error")
c.connect()
c.reset(ports=[0])
c.add_streams([stream for _, stream, *_ in cases], ports=[0])
c.start(ports=[0], mult="1")
c.wait_on_traffic(ports=[0], timeout=20)
stats = c.get_stats()
found["opackets"] = stats[0]["opackets"]
found["groups"] = [stats["flow_stats"][5]["tx_pkts"][0], stats["flow_stats"][6]["tx_pkts"][0]]

# addresses are the port's unless the frame has its own
c.remove_all_streams(ports=[0])
plain = Ether() / IP(src="16.0.0.1", dst="48.0.0.2") / UDP(dport=12, sport=1) / ("x" * 18)
c.add_streams(STLStream(packet=STLPktBuilder(pkt=plain), mode=STLTXSingleBurst(total_pkts=2, pps=1000)), ports=[0])
c.start(ports=[0])
c.wait_on_traffic(ports=[0], timeout=20)

# S0, S1 and S2 in sequence, twice: the times of the documentation's example
c.remove_all_streams(ports=[0])
to = lambda last: STLPktBuilder(pkt=Ether() / IP(src="16.0.0.1", dst="48.0.1.%d" % last) / UDP(dport=12, sport=1) / ("x" * 18))
c.add_streams([
    STLStream(name="S0", isg=10.0, packet=to(0), mode=STLTXSingleBurst(total_pkts=1, pps=10), next="S1"),
    STLStream(name="S1", self_start=False, packet=to(1), mode=STLTXSingleBurst(total_pkts=2, pps=10), next="S2"),
    STLStream(name="S2", self_start=False, packet=to(2), mode=STLTXSingleBurst(total_pkts=3, pps=10), next="S0", action_count=2),
], ports=[0])
c.start(ports=[0])
c.wait_on_traffic(ports=[0], timeout=20)
c.remove_all_streams(ports=[0])
c.add_streams(STLStream(packet=to(9), mode=STLTXMultiBurst(pkts_per_burst=3, count=2, ibg=50000.0, pps=100)), ports=[0])
c.start(ports=[0])
c.wait_on_traffic(ports=[0], timeout=20)

# invalid requests are refused with a message
c.remove_all_streams(ports=[0])
c.add_streams(STLStream(packet=to(7), mode=STLTXSingleBurst(total_pkts=50, pps=10)), ports=[0])
c.start(ports=[0])
refused = {}
try:
    c.pause(ports=[0])
except STLError as error:
    refused["pause"] = str(error)
found["refused"] = refused
c.stop(ports=[0])
c.disconnect()
time.sleep(0.5)

by_case, others = {}, []
for bytes_, meta in RawPcapReader(sys.argv[3]):
    # pcapng with nanoseconds; this version of scapy ignores the resolution
    at = (meta.tshigh << 32 | meta.tslow) // 1000
    if bytes_[6:11] == b"\x02\0\0\0\xff":
        by_case.setdefault(bytes_[11], []).append(bytes_)
    elif bytes_[12:14] == b"\x08\0" and bytes_[26:30] == b"\x10\0\0\1":
        others.append((at, bytes_))
wrong = []
for number, _, template, expected, count in cases:
    came = by_case.get(number, [])
    if len(came) != count:
        wrong.append("case %d: %d frames, not %d" % (number, len(came), count))
    for n, bytes_ in enumerate(came[:count]):
        wanted = expected(template, n)
        if bytes_[: len(wanted)] != wanted or len(bytes_) > max(60, len(wanted)) + (8 if expected is timed else 0):
            wrong.append("case %d, frame %d: %s, not %s" % (number, n, bytes_.hex(), wanted.hex()))
            break
found["wrong"] = wrong
found["cases"] = len(cases)
plain = [b for _, b in others if b[30:34] == b"\x30\0\0\2"]
found["addresses"] = [[":".join("%02x" % x for x in b[:6]), ":".join("%02x" % x for x in b[6:12])] for b in plain]
chain = [(at, b[33]) for at, b in others if b[30:33] == b"\x30\0\1" and b[33] < 3]
found["chain"] = [which for _, which in chain]
found["chain us"] = [at - chain[0][0] for at, _ in chain] if chain else []
burst = [at for at, b in others if b[30:34] == b"\x30\0\1\x09"]
found["burst us"] = [at - burst[0] for at in burst] if burst else []
print(json.dumps(found))
