"""Valid and invalid calls in random order, from three clients at once, during real traffic.

Arguments: port of the RPC, process of the server, seconds. What was found is the last line, as JSON: every call was answered, everything
could be stopped, and the server is no larger than before.
"""

import base64
import json
import os
import random
import sys
import threading
import time

import lbr_trex_client  # noqa: F401  it makes `trex` importable, and with it zmq
import trex.stl.api  # noqa: F401
import zmq

RPC, SERVER, END = int(sys.argv[1]), int(sys.argv[2]), time.time() + float(sys.argv[3])
HEADERS = "000000010000000000020000080045 00002e0001000040117aaf1000000130000001 0401000c001a0000"
CONTEXT = zmq.Context()
FRAME = base64.b64encode(bytes.fromhex(HEADERS.replace(" ", "")) + b"x" * 18).decode()
OFTEN = (
    ["add_stream"] * 8 + ["start_traffic"] * 6 + ["stop_traffic"] * 4 + ["update_traffic"] * 4
    + ["pause_traffic", "resume_traffic", "get_pgid_stats", "get_port_status", "remove_all_streams"] * 2
    + ["pause_streams", "update_streams", "resume_streams"]
)
found = {"calls": 0, "refused": 0, "unanswered": None}


def ask(socket, method, params):
    found["calls"] += 1
    socket.send(json.dumps({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}).encode())
    return json.loads(socket.recv())


def connect():
    socket = CONTEXT.socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVTIMEO, 10000)
    socket.connect("tcp://127.0.0.1:%d" % RPC)
    version = {"name": "STL", "major": 5, "minor": 1}
    return socket, ask(socket, "api_sync_v2", version)["result"]["api_h"]


def junk(r):
    return r.choice([
        None, True, False, 0, 1, -1, 2**31, 2**64 - 1, 1e308, "_", "*", "x" * 300, [], [1, 2, 3], {}, {"a": {"b": [{}] * 5}},
    ])


def stream(r):
    mode = r.choice([
        {"type": "continuous"},
        {"type": "single_burst", "total_pkts": r.choice([1, 10, 1000])},
        {"type": "multi_burst", "pkts_per_burst": 3, "count": 2, "ibg": r.choice([0, 10.5, 1e5])},
    ])
    kind = r.choice(["pps", "bps_L1", "bps_L2", "percentage"])
    mode["rate"] = {"type": kind, "value": 0.001 if kind == "percentage" else r.choice([1, 28, 0.01, 1000])}
    ends = mode["type"] != "continuous"
    one = {
        "name": "S", "flags": r.choice([0, 1, 2, 3, 8]), "action_count": r.choice([0, 1, 3]), "enabled": r.random() < 0.9,
        "self_start": r.random() < 0.8, "start_paused": r.random() < 0.1, "isg": r.choice([0.0, 100.0, 1e6]),
        "next_stream_id": r.choice([-1, -1, 1, 2, 3]) if ends else -1, "mode": mode,
        "packet": {"binary": FRAME, "meta": ""}, "vm": {"instructions": []}, "flow_stats": {"enabled": False},
    }
    if r.random() < 0.4:
        kind = r.choice(["stats", "latency"])
        one["flow_stats"] = {"enabled": True, "rule_type": kind, "stream_id": r.randrange(6) + 10 * (kind == "latency")}
    if r.random() < 0.3:
        one["vm"] = {"instructions": [
            {"type": "flow_var", "name": "v", "size": 2, "op": r.choice(["inc", "dec", "random"]), "init_value": 1,
             "min_value": 1, "max_value": r.choice([1, 100, 65535]), "step": 1, "next_var": None},
            {"type": "write_flow_var", "name": "v", "pkt_offset": r.choice([34, 36, 59, 200]), "add_value": 0, "is_big_endian": True},
            {"type": "fix_checksum_ipv4", "pkt_offset": 14},
        ]}
    if r.random() < 0.1:
        one[r.choice(list(one))] = junk(r)
    return one


def params(r, api, port, handler, number):
    kind = r.choice(["raw", "pps", "bps", "bpsl1", "percentage"])
    return {
        "api_h": api, "port_id": port, "handler": handler, "profile_id": r.choice(["_", "_", "_", "p1", "*"]),
        "stream_id": r.randrange(1, 6), "stream": stream(r), "stream_ids": [r.randrange(1, 6)], "pgids": [],
        "mul": {"type": kind, "value": 0.01 if kind == "percentage" else r.choice([0.5, 1, 2, 100]),
                "op": r.choice(["abs", "abs", "abs", "add", "sub"])},
        "duration": r.choice([-1, 0.05, 0.3]), "force": r.random() < 0.5, "core_mask": 2**64 - 1,
        "start_at_ts": r.choice([0, 0, 0, 0.1]), "session_id": number, "user": "u%d" % number, "key": 7, "get_pkt": True,
        "enabled": r.random() < 0.5, "filtered": r.random() < 0.3, "attr": {"promiscuous": {"enabled": True}}, "type": "queue",
        "command": r.choice(["status", "start", "fetch", "stop", "remove"]), "capture_id": r.randrange(4), "limit": 10,
        "mode": "fixed", "tx": [], "rx": [port], "filter": r.choice(["", "udp", "arp"]), "pkt_limit": 5, "snaplen": 0,
        "pkts": [{"binary": FRAME, "use_port_dst_mac": True, "use_port_src_mac": True}], "ipg_usec": 0,
        "dst_mac": "02:00:00:00:00:01", "src_addr": "16.0.0.2", "dst_addr": "16.0.0.1", "vlan": [],
        "name": "STL", "major": 5, "minor": 1,
    }


def client(number):
    r = random.Random(number)
    socket, api = connect()
    commands = [name for name in ask(socket, "get_supported_cmds", {"api_h": api})["result"] if name != "shutdown"]
    handlers = {0: "", 1: ""}
    called = 0
    while time.time() < END and not found["unanswered"]:
        called += 1
        port = r.randrange(2)
        method = r.choice(commands) if r.random() < 0.3 else r.choice(OFTEN)
        try:
            if called % 500 == 0:
                socket.close()
                socket, api = connect()
            if not handlers[port] or r.random() < 0.02:
                mine = {"api_h": api, "port_id": port, "user": "u%d" % number, "session_id": number, "force": True}
                handlers[port] = ask(socket, "acquire", mine).get("result", "")
            said = params(r, api, port, handlers[port], number)
            for _ in range(r.choice([0, 0, 1, 2])):
                said[r.choice(list(said))] = junk(r)
            if method == "release":
                handlers[port] = ""
            if r.random() < 0.05:
                batch = [{"jsonrpc": "2.0", "id": n, "method": r.choice(commands), "params": said} for n in range(r.randrange(1, 8))]
                found["calls"] += len(batch)
                socket.send(json.dumps(batch).encode())
                json.loads(socket.recv())
            elif r.random() < 0.01:
                socket.send(os.urandom(r.randrange(1, 200)))
                json.loads(socket.recv())
            else:
                found["refused"] += "error" in ask(socket, method, said)
        except zmq.error.Again:
            found["unanswered"] = method


def size():
    status = open("/proc/%d/status" % SERVER).read()
    field = lambda name: int(status.split(name + ":")[1].split()[0])
    return {"kB": field("VmRSS"), "threads": field("Threads"), "files": len(os.listdir("/proc/%d/fd" % SERVER))}


found["before"] = size()
clients = [threading.Thread(target=client, args=(number,)) for number in (1, 2, 3)]
for one in clients:
    one.start()
for one in clients:
    one.join()
socket, api = connect()
states = []
for port in (0, 1):
    last = {"api_h": api, "port_id": port, "user": "last", "session_id": 99, "force": True}
    own = {"api_h": api, "port_id": port, "handler": ask(socket, "acquire", last)["result"], "profile_id": "*"}
    ask(socket, "stop_traffic", own)
    ask(socket, "remove_all_streams", own)
    states.append(ask(socket, "get_port_status", own)["result"]["state"])
found["states"] = states
packets = lambda: [ask(socket, "get_port_stats", {"api_h": api, "port_id": port})["result"]["opackets"] for port in (0, 1)]
before = packets()
time.sleep(0.5)
found["sent when stopped"] = [after - was for after, was in zip(packets(), before)]
found["groups"] = ask(socket, "get_active_pgids", {"api_h": api})["result"]["ids"]
found["after"] = size()
print(json.dumps(found))
