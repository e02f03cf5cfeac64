"""A typical TRex profile: three frame sizes with increasing start delays, one varying address, and a tunable."""

import argparse

from trex_stl_lib.api import *


class Mix:
    def get_streams(self, direction, tunables, **kwargs):
        parser = argparse.ArgumentParser()
        parser.add_argument("--scale", type=int, default=1)
        scale = parser.parse_args(tunables).scale
        here, there = ("16.0.0", "48.0.0") if direction == 0 else ("48.0.0", "16.0.0")
        streams = []
        for number, (size, pps) in enumerate([(60, 28), (590, 16), (1514, 4)]):
            vm = STLVM()
            vm.var(name="src", min_value=here + ".1", max_value=here + ".254", size=4, op="inc")
            vm.write(fv_name="src", pkt_offset="IP.src")
            vm.fix_chksum()
            headers = Ether() / IP(dst=there + ".1") / UDP()
            packet = STLPktBuilder(pkt=headers / ("x" * (size - len(headers))), vm=vm)
            streams.append(STLStream(isg=number * 100, packet=packet, mode=STLTXCont(pps=pps * scale)))
        return streams


def register():
    return Mix()
