"""A queue per client; the client with the least counter is next, and a policy says what changes counters.

No operation costs what waits: a heap of clients holds lower bounds of their counters, which only grow, and is brought
up to date where somebody looks.
"""

import heapq

from attrs import Factory, define

from ..job import Job
from .one_queue import WaitingQueue, by_arrival


@define(eq=False)
class Client:
    """Its queue, its counter, and whether the heap of clients has an entry for it.  `number`: ties go to whoever was
    seen first."""

    number: int
    counter: int = 0
    queue: WaitingQueue = Factory(lambda: WaitingQueue(by_arrival))
    listed: bool = False


class Sharing:
    """What changes the counter of a client.  This one is Least Counter First: service alone does."""

    shows_counters = True

    def enters(self, queues: "ClientQueues", client: Client) -> None:
        """A client of whom nobody waited has a waiting request again."""

    def pick_charge(self, queues: "ClientQueues", client: Client, job: Job) -> int:
        """The prompt, once: what a preempted request computes again is not its client's doing."""
        return 0 if job.was_preempted else 1 * job.request.prompt_tokens

    def token_charge(self) -> int:
        return 2


class Vtc(Sharing):
    """Virtual Token Counter (Sheng et al., OSDI 2024, Algorithm 2): who comes back is lifted, never lowered.  Neither
    service that was never asked for nor a preemption becomes credit."""

    def enters(self, queues: "ClientQueues", client: Client) -> None:
        least = queues.least()
        if least is None:
            least = queues.last_left
        if least is not None:
            client.counter = max(client.counter, least.counter)


class RoundRobin(Sharing):
    """One request of each client in turn: the counter is its place in the round, and who was served goes last."""

    shows_counters = False

    def enters(self, queues: "ClientQueues", client: Client) -> None:
        client.counter = queues.next_turn()

    def pick_charge(self, queues: "ClientQueues", client: Client, job: Job) -> int:
        return queues.next_turn() - client.counter

    def token_charge(self) -> int:
        return 0


@define(eq=False)
class ClientQueues:
    """A queue per client; the client with the least counter is next.  `last_left` is the client whose last waiting
    request was admitted or ended most recently."""

    sharing: Sharing
    clients: dict[str, Client] = Factory(dict)
    heap: list[tuple[int, int, Client]] = Factory(list)
    last_left: Client | None = None
    size: int = 0
    turns: int = 0

    def push(self, job: Job) -> None:
        client = self.client_of(job)
        if not client.queue.size:
            self.sharing.enters(self, client)
        self.put_back(job)

    def pop(self) -> Job | None:
        client = self.least()
        if client is None:
            return None
        self.size -= 1
        return client.queue.pop()

    def put_back(self, job: Job) -> None:
        client = self.client_of(job)
        client.queue.push(job)
        self.size += 1
        self._list(client)

    def picked(self, job: Job) -> None:
        client = self.client_of(job)
        client.counter += self.sharing.pick_charge(self, client, job)
        self._leaves(client)

    def left(self, job: Job) -> None:
        client = self.client_of(job)
        client.queue.left(job)
        self.size -= 1
        self._leaves(client)

    def served(self, job: Job) -> None:
        self.client_of(job).counter += self.sharing.token_charge()

    def counters(self) -> dict[str, int]:
        if not self.sharing.shows_counters:
            return {}
        return {name: client.counter for name, client in self.clients.items()}

    def least(self) -> Client | None:
        """The client with the least counter among those with waiting requests."""
        while self.heap:
            counter, _, client = self.heap[0]
            if not client.queue.size:
                heapq.heappop(self.heap)
                client.listed = False
            elif counter != client.counter:
                heapq.heapreplace(self.heap, (client.counter, client.number, client))
            else:
                return client
        return None

    def next_turn(self) -> int:
        self.turns += 1
        return self.turns

    def client_of(self, job: Job) -> Client:
        name = job.request.client
        if name not in self.clients:
            self.clients[name] = Client(len(self.clients))
        return self.clients[name]

    def _list(self, client: Client) -> None:
        if not client.listed:
            heapq.heappush(self.heap, (client.counter, client.number, client))
            client.listed = True

    def _leaves(self, client: Client) -> None:
        if not client.queue.size:
            self.last_left = client
