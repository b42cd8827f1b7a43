"""The Python client of a daemon: synchronous and asynchronous from one core (CLIENT-1).

    with Client(find_daemon(os.environ)) as daemon:
        daemon.get("/v1/hostler/status")

Importing it imports nothing of the daemon. A refusal of the daemon is raised as the same class.
"""

from hostler.client.address import Address, find_daemon, find_head, state_dir
from hostler.client.call import Sent
from hostler.client.senders import AsyncClient, Client

__all__ = ["Address", "AsyncClient", "Client", "Sent", "find_daemon", "find_head", "state_dir"]
