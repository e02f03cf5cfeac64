"""TRex's console, unmodified, with the arguments of this script. Commands come from standard input."""

import sys

import lbr_trex_client  # noqa: F401  it makes `trex` importable
from trex.console import trex_console

sys.argv[0] = "trex-console"
trex_console.main()
