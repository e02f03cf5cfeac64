"""The console of TRex, unmodified: its arguments are ours. What is typed comes from the standard input."""

import sys

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.console import trex_console

sys.argv[0] = "trex-console"
trex_console.main()
