# Gets the streams of a profile, in both directions, from TRex's own client library. Arguments: the
# file, and tunables as JSON. The last line of the output is the result, as JSON; a profile may
# print anything before it.
import json
import os
import sys

try:
    import lbr_trex_client  # makes `trex` importable where it is installed as a package
except ImportError:
    pass
try:
    from trex.stl.api import STLError, STLProfile
except ImportError as error:
    print(json.dumps({"absent": str(error)}))
    sys.exit(0)


FILE = os.path.abspath(sys.argv[1])


def streams(direction):
    tunables = json.loads(sys.argv[2])
    profile = STLProfile.load(FILE, direction=direction, port_id=direction, **tunables)
    if profile is None:
        raise ValueError("it does not take these tunables: %s" % ", ".join(tunables))
    made = profile.get_streams()
    names = {}
    for number, stream in enumerate(made, 1):
        names.setdefault(stream.get_name() or "S%d" % number, number)
    said = {}
    for number, stream in enumerate(made, 1):
        one = stream.to_json()
        next_ = stream.get_next()
        one["next_stream_id"] = names[next_] if next_ else -1
        one["name"] = stream.get_name() or "S%d" % number
        said[number] = one
    return said


# profiles name other files relative to their own folder
os.chdir(os.path.dirname(FILE))
try:
    print(json.dumps({"streams": [streams(0), streams(1)]}))
except (STLError, OSError, KeyError, TypeError, ValueError) as error:
    print(json.dumps({"wrong": str(error)}))
