"""TRex's own console on a terminal: commands, then its TUI during traffic, then exit.

Arguments: ports of the RPC and the publisher, and a profile. What was on the screen is the last line, as JSON.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time

START = """
import sys, lbr_trex_client
sys.argv = ["trex-console", "-s", "127.0.0.1", "-p", "%s", "--async_port", "%s", "-f"]
from trex.console.trex_console import main
main()
"""

child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.executable, [sys.executable, "-c", START % (sys.argv[1], sys.argv[2])])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 140, 0, 0))
seen, missed = "", []


def read(seconds):
    global seen
    end = time.time() + seconds
    while time.time() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(terminal, 65536).decode(errors="replace"))
            except OSError:
                return


def wait(what, seconds=20):
    """Waits until this text is on the screen, after the text of the previous wait."""
    global seen
    end = time.time() + seconds
    while what not in seen:
        read(0.1)
        if time.time() > end or missed:
            missed.append({"not seen": what, "but": seen[-400:]})
            return
    seen = seen[seen.index(what) + len(what) :]


def say(line):
    os.write(terminal, line.encode())


wait("trex>")
say("start -f %s -m 1kpps -p 0\n" % sys.argv[3])
wait("Starting traffic on port(s) [0._]")
wait("[SUCCESS]")
wait("trex>")
say("update -m 2kpps -p 0\n")
wait("Updating traffic")
wait("[SUCCESS]")
say("stats -p\n")
wait("Port Statistics")
wait("opackets")
say("tui\n")
# escape: single keys instead of a command line, as soon as the screen lists them
for key, what in [("", "Port Statistics"), ("\x1b", "browse:"), ("s", "Streams Statistics"), ("l", "Latency Statistics"), ("u", "Cpu Util(%)"), ("d", "Port Statistics")]:
    say(key)
    wait(what)
say("q")
wait("trex>")
say("stop -p 0\n")
wait("Stopping traffic on port(s) [0._]")
wait("[SUCCESS]")
say("quit\n")
ended, end = None, time.time() + 60
while ended is None and time.time() < end:
    read(0.1)
    # it closes its terminal some time before it exits; until then, read returns at once
    time.sleep(0.05)
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        ended = os.waitstatus_to_exitcode(status)
if ended is None:
    os.kill(child, 9)
print(json.dumps({"missed": missed, "ended": ended}))
