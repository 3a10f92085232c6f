"""Make the environment of the peers from benchmarks/peers/requirements.lock."""

from benchmarks.peers import set_up

set_up()
