"""What is changed, one thing at a time: see `small_changes.py`."""

from pathlib import Path

from attrs import frozen

TESTS = (
    *(
        "tests/unit/test_waiting_lines.py",
        "tests/unit/test_plain_clients.py",
        "tests/unit/test_calendar.py",
        "tests/unit/test_run_ahead.py",
        "tests/unit/test_optimized_limits.py",
    ),
    "tests/unit/test_optimized.py",
)


@frozen
class Change:
    """In a module what stands there once, and what stands there instead.  `test`: of a twin, in which file it is held
    against the reference."""

    module: str
    old: str
    new: str
    test: str = ""

    @property
    def file(self) -> Path:
        return Path("kernels" if self.test else "optimized") / f"{self.module}.py"

    @property
    def tests(self) -> tuple[str, ...]:
        if not self.test:
            return TESTS
        which = "twins_decide" if self.test == "test_scheduler.py" else "twin"
        return (f"tests/kernels/{self.test}", "-k", which)

    def __str__(self) -> str:
        return f"{self.file}: {self.old!r} -> {self.new!r}"


OPTIMIZED = (
    Change("calendar", "self.edges <= self.steps)", "self.edges < self.steps)"),
    Change("calendar", "self.edges <= self.steps)", "self.edges <= self.steps + 1)"),
    Change("calendar", "self.edges < self.steps + steps)", "self.edges <= self.steps + steps)"),
    Change("calendar", "self.edges[places] += self.block_size", "self.edges[places] += self.block_size + 1"),
    Change("calendar", "self.edges[places] - self.steps\n", "self.edges[places] - self.steps - 1\n"),
    Change("calendar", 'kind="stable"', 'kind="quicksort"'),
    Change("calendar", "if done >= self.next_end:", "if done > self.next_end:"),
    Change("calendar", "(self.ends <= done)", "(self.ends < done)"),
    Change("calendar", "(self.ends <= done)", "(self.ends <= done + 1)"),
    Change(
        "calendar", "end = rows.samples_left[which] + self.steps", "end = rows.samples_left[which] + self.steps + 1"
    ),
    Change("calendar", "start = issued - self.steps", "start = issued - self.steps + 1"),
    Change("calendar", "held * self.block_size - start, end))", "held * self.block_size - start - 1, end))"),
    Change("calendar", "rows.outputs[which] -= self.done", "pass"),
    Change("calendar", "self.next_end = min(self.next_end, int(np.minimum.reduce(end)))", "pass"),
    Change("calendar", "self.next_end = int(np.minimum.reduce(self.ends))", "pass"),
    Change("calendar", "self.fresh = len(which)", "pass"),
    Change("calendar", "rows.outputs[left] += self.done", "pass"),
    Change("calendar", "self.columns[:, place + 1 :]", "self.columns[:, place:]"),
    Change("calendar", "stays[places] = False", "stays[places[:-1]] = False"),
    Change("calendar", "        self.is_closed = False\n        return left", "        return left"),
    Change(
        "calendar",
        "rows.samples_left[order] = self.ends - self.steps",
        "rows.samples_left[order] = self.ends - self.done",
    ),
    Change("calendar", "rows.issued[order] = self.starts + self.steps", "rows.issued[order] = self.starts + self.done"),
    Change("calendar", "        if self.done:\n            known", "        if True:\n            known"),
    Change("calendar", "self.starts[known] + self.done", "self.starts[known] + self.steps"),
    Change("calendar", "slice(len(order) - self.fresh)", "slice(len(order))"),
    Change("calendar", "rows.left[order] = 1", "pass"),
    Change("step", "if growth.needed > self.blocks.free:", "if growth.needed >= self.blocks.free and growth.needed:"),
    Change("step", "if scheduled > settings.token_budget:", "if scheduled > settings.token_budget + 1:"),
    Change("step", "before = tokens.cumsum() - tokens", "before = tokens.cumsum()"),
    Change("step", "before = tokens.cumsum() - tokens", "before = (tokens.cumsum() - tokens).astype(np.int32)"),
    Change("step", "growing = (missing > 0).nonzero()[0]", "growing = (missing >= 0).nonzero()[0]"),
    Change(
        "step",
        "blocks = -(-missing[growing] // settings.block_size)",
        "blocks = missing[growing] // settings.block_size + 1",
    ),
    Change("step", "growth.row[kept:][::-1]", "growth.row[kept:]"),
    Change("step", 'side="right"))\n\n    def without', 'side="left"))\n\n    def without'),
    Change("step", "(job.request.priority, job.admission))", "(job.request.priority, -job.admission))"),
    Change("step", "settings.seats - running, tokens", "settings.seats - running + 1, tokens"),
    Change(
        "running",
        "self.rows.issued[self.order] < self.rows.prefill_end[self.order]).sum",
        "self.rows.issued[self.order] <= self.rows.prefill_end[self.order]).sum",
    ),
    Change("step", "samples = (left == 0).astype", "samples = (left <= 1).astype"),
    Change("step", "rows.samples_left[row] -= samples", "pass"),
    Change(
        "step",
        "prefilling = ends <= self.rows.prefill_end[rows]",
        "prefilling = ends < self.rows.prefill_end[rows]",
    ),
    Change("ticks", "stopped | (outputs >= rows.declared[served])", "stopped | (outputs > rows.declared[served])"),
    Change("ticks", "tick != calendar.done + 1:", "tick < calendar.done + 1:"),
    Change("ticks", "return oldest.calendar is calendar", "return True"),
    Change("ticks", "ends = calendar.steps == calendar.next_end or", "ends = calendar.steps > calendar.next_end or"),
    Change("ticks", "if self.in_flight or any(tokens < job.known", "if any(tokens < job.known"),
    Change(
        "ticks",
        "if self.in_flight or any(tokens < job.known for job, tokens, _ in admitted):",
        "if self.in_flight:",
    ),
    Change(
        "ticks",
        "        known = rows.left[entering]\n        rows.samples_left[entering] -= 1",
        "        known = rows.left[entering]",
    ),
    Change("ticks", "        calendar.fresh = 0\n        self.queue.tick()", "        self.queue.tick()"),
    Change("ticks", "        calendar.fresh = 0\n        self.queue.tick()", "        calendar.fresh = 0"),
    Change("ticks", "        self.queue.leave_clock(self.rows, ended)\n", ""),
    Change("ticks", "        self.queue.join_clock(rows, entering)\n", ""),
    Change(
        "scheduler",
        "        else:\n            self.leave_calendar()\n            for _, gave",
        "        else:\n            for _, gave",
    ),
    Change("scheduler", "        self.open_calendar()\n        if job.row", "        if job.row"),
    Change(
        "ticks",
        "if self.calendar is not None:\n            self.calendar.is_closed = False",
        "if self.calendar is not None:\n            self.calendar.is_closed = True",
    ),
    Change(
        "ticks",
        "running >= self.settings.seats or running == budget",
        "running >= self.settings.seats - 1 or running == budget",
    ),
    Change("ticks", "if len(places) > self.blocks.free:", "if len(places) >= self.blocks.free > 0:"),
    Change("ticks", "done = int(ticks[self.blocks.free])", "done = int(ticks[self.blocks.free]) + 1"),
    Change("scheduler", "calendar.next_end - 1 - before", "calendar.next_end - before"),
    Change("scheduler", "steps <= calendar.next_end - calendar.steps", "steps < calendar.next_end - calendar.steps"),
    Change("scheduler", "0 < len(stopping) < len(calendar.order)", "0 < len(stopping) <= len(calendar.order)"),
    Change("scheduler", "steps - bool(stopping)", "steps"),
    Change("scheduler", "calendar.ending(stopped, calendar.done), stopped)", "stopped.nonzero()[0], stopped)"),
    Change("running", "self.resident_tokens -= sum([job.length for job in jobs])", "pass"),
    Change("blocks", "self.free + count][::-1].copy()", "self.free + count].copy()"),
    Change("blocks", "(first + counts - ends).repeat(counts)", "(first + counts - ends + 1).repeat(counts)"),
    Change("blocks", "np.arange(1, count + 1)]", "np.arange(count)]"),
    Change(
        "blocks",
        "(first + ends).repeat(held) - np.arange(1, count + 1)",
        "(first + ends - held).repeat(held) + np.arange(count) - (ends - held).repeat(held)",
    ),
    Change("blocks", "self._reach(held + count)", "self._reach(held)"),
    Change("blocks", "self.tables[rows[0], : held[0]][::-1].copy()", "self.tables[rows[0], : held[0]].copy()"),
    Change(
        "blocks",
        "self._reach(int(np.maximum.reduce(held + counts)))",
        "self._reach(int(np.maximum.reduce(held + counts)) - 1)",
    ),
    Change(
        "batch",
        "kept = int(np.searchsorted(self.growing, count))",
        'kept = int(np.searchsorted(self.growing, count, side="right"))',
    ),
    Change("batch", "if rows.left_so_far == self.left_so_far:", "if rows.left_so_far <= self.left_so_far + 1:"),
    Change("arrays", "outputs, declared - outputs, declared,", "outputs, declared, declared,"),
    Change("arrays", "outputs, declared - outputs, declared,", "outputs, (declared - outputs) & 0xFFFF, declared,"),
    Change("arrays", "self.generation[rows] += 1", "pass"),
    Change("arrays", "known = job.prompt + outputs", "known = job.prompt"),
    Change(
        "service",
        "if self.bound >= LARGEST:\n            self._empty()\n            self.bound",
        "if self.bound >= 4 * LARGEST:\n            self._empty()\n            self.bound",
    ),
    Change("service", "            self.bound = more", "            self.bound = 0"),
    Change("service", "self._make_room(most * len(members))", "self._make_room(most)"),
    Change("service", "            np.subtract.at(self.since, members, self.ticks * rates)\n", "            pass\n"),
    Change("service", "        np.add.at(self.since, members, self.ticks * rates)\n", ""),
    Change("service", "        np.subtract.at(self.rates, members, rates)\n", ""),
    Change(
        "service", "self.since += self.ticks * self.rates", "self.since += (self.ticks * self.rates).astype(np.int32)"
    ),
    Change("service", "np.add.at(self.since, members, amounts)", "self.since[members] += amounts"),
    Change("service", "np.add.at(self.rates, members, rates)", "self.rates[members] += rates"),
    Change(
        "service", "            self._make_room(self.ticks * most * len(members))\n            np", "            np"
    ),
    Change("service", "        self._make_room(self.ticks * most * len(members))\n        np.add", "        np.add"),
    Change("service", "        self._make_room(self.ticks * int(self.rates.max()))\n", ""),
    Change(
        "race",
        "            if rank == bound:\n                return member",
        "            if rank is not None:\n                return member",
    ),
    Change("race", "listed is None or rank < listed", "listed is None or rank > listed"),
    Change(
        "race",
        "heappop(heap)\n                continue\n            rank = ",
        "pass\n            rank = ",
    ),
    Change(
        "race",
        "heappush(self.heap, (rank, member.number, member))",
        "heappush(self.heap, (rank, -member.number, member))",
    ),
    Change("race", "entry < self.listed.get(number, inf)", "entry > self.listed.get(number, -inf)"),
    Change("race", "entry < self.limit and entry", "entry"),
    Change("race", "entry < self.limit and member.line.size", "member.line.size"),
    Change("plain_clients", "counter + job.pick_cost)", "counter + job.pick_cost + 1)"),
    Change(
        "plain_clients",
        "        if counter > group.virtual_time:\n            group.virtual_time = counter\n        if not",
        "        if not",
    ),
    Change("plain_clients", "    group.virtual_time = counter\n            if job", "    pass\n            if job"),
    Change("plain_clients", "-(-reserved(job, tokens) // size)", "reserved(job, tokens) // size + 1"),
    Change("plain_clients", "needed > blocks - kept", "needed >= blocks - kept"),
    Change("plain_clients", "watermark if room.running else 0", "watermark"),
    Change("plain_clients", "blocks - needed, watermark", "blocks - needed, kept"),
    Change("plain_clients", "            while not waiting[0][1].is_live:\n                heappop(waiting)\n", ""),
    Change("plain_clients", "bound + (cost << NUMBER_BITS)", "bound + (cost + 1 << NUMBER_BITS)"),
    Change("plain_clients", "[member.account] += cost", "[member.account] += cost & 0x7FFFFFFF"),
    Change("plain_clients", "if entry < race.limit and line.size:", "if line.size:"),
    Change("plain_clients", "            member.waiting -= 1\n", ""),
    Change("plain_clients", "            if job.is_charged:\n                continue\n", ""),
    Change("plain_clients", 'self.settings.charge_prompt == "pick"', "True"),
    Change("plain_clients", "self.hears_who_leaves = self.settings.charge_prediction", "self.hears_who_leaves = False"),
    Change("step", "                del self.jobs[job.request.id]\n            return", "            return"),
    Change("plain_clients", "if group.out > 1:", "if group.out > 2:"),
    Change("plain_clients", "-= 1\n        group.last_left = member\n", "-= 1\n"),
    Change("plain_clients", "-= 1\n            group.last_left = member\n", "-= 1\n"),
    Change("plain_clients", "not settings.aging_picks and ", ""),
    Change("race", "entry == bound or entry >= self.limit", "entry == bound"),
    Change("race", "self.may_wait[number] = entry != bound", "self.may_wait[number] = False"),
    Change(
        "race",
        "self.may_wait[number], self.account[number] = True, member.account",
        "self.account[number] = member.account",
    ),
    Change("race", "True, member.account", "True, number"),
    Change("race", "heappop(heap)\n                continue\n            member", "pass\n            member"),
    Change("race", "entry == bound and self.waits(member)", "self.waits(member)"),
    Change("race", "(most + 1) << NUMBER_BITS", "(most + 2) << NUMBER_BITS"),
    Change("race", "        self.limit = inf\n", ""),
    Change("service", "        if self.is_far:\n            return None\n", ""),
    Change("service", "self.bound, self.is_far = 0, True", "self.bound = 0"),
    Change("service", "self.bound += abs(amount)\n", "pass\n"),
    Change("service", "ranks + self.ticks * self.rates[members] if self.ticks else ranks", "ranks"),
    Change(
        "members", "self.line[0][0] + self.picks <= self.admissions", "self.line[0][0] + self.picks < self.admissions"
    ),
    Change("members", "if counter > self.virtual_time:", "if True:"),
    Change("sharing", "if least > group.virtual_time:", "if True:"),
    Change("members", "if self.by_counter and self.out == 1 else", "if self.by_counter else"),
    Change(
        "members",
        "counter - self.credit if member.aged else counter",
        "counter - self.credit if member.aged > 1 else counter",
    ),
    Change("members", "            if job.is_live:\n", "            if True:\n"),
    Change("sharing", "max(group.counter(member), self.lift(group, member))", "self.lift(group, member)"),
    Change(
        "sharing",
        "max(counter - amount, min(counter, group.virtual_time))",
        "max(counter - amount, group.virtual_time)",
    ),
    Change("sharing", "counter // self.quantum, member.place", "-(-counter // self.quantum), member.place"),
    Change("sharing", "counter // self.quantum, member.place", "counter // self.quantum, -member.place"),
    Change("sharing", "counter // self.quantum * self.quantum", "counter"),
    Change("sharing", "least = group.least() or group.last_left", "least = group.least()"),
    Change("sharing", "self.bursts[member.name] * self.prices[member.name]", "self.bursts[member.name]"),
    Change("sharing", "0 if first is None else first.arrival", "0 if first is None else -first.arrival"),
    Change("clients", "self.steepest * len(which) >= LARGEST", "self.steepest >= LARGEST"),
    Change("clients", "self.steepest * running * ticks < LARGEST", "self.steepest * ticks < LARGEST"),
    Change("clients", "self.steepest * running * ticks < LARGEST", "True"),
    Change(
        "clients",
        "rows.outputs[which] > rows.charged_outputs[which]",
        "rows.outputs[which] >= rows.charged_outputs[which]",
    ),
    Change("clients", "if outputs > charged:", "if outputs >= charged:"),
    Change("clients", "outputs - 1, outputs))", "outputs, outputs + 1))"),
    Change("clients", "if charged > job.outputs:", "if charged >= job.outputs + 2:"),
    Change("clients", "min(end, job.prompt) - job.charged_prompt", "end - job.charged_prompt"),
    Change("clients", "if self.is_charged and not job.is_charged:", "if self.is_charged:"),
    Change("clients", "max(job.request.expected_output_tokens, job.outputs)", "job.request.expected_output_tokens"),
    Change("caps", "usage.seats >= s.client_seats", "usage.seats > s.client_seats"),
    Change(
        "caps",
        "usage.tokens + job.length > s.client_resident_tokens",
        "usage.tokens + job.length >= s.client_resident_tokens",
    ),
    Change("caps", "self.due(job) <= s.client_committed_cost", "self.due(job) < s.client_committed_cost"),
    Change("caps", "* 100 <= lane.maximum_percent", "* 100 < lane.maximum_percent"),
    Change("admission", "needed > spare", "needed >= spare"),
    Change("admission", "(watermark if room.running else 0)", "watermark"),
    Change("admission", "room.prefilling >= s.prefilling_requests", "room.prefilling > s.prefilling_requests"),
    Change(
        "admission", "room.resident + job.length > s.resident_tokens", "room.resident + job.length >= s.resident_tokens"
    ),
    Change("admission", "known <= left and known <= self.most", "known < left and known <= self.most"),
    Change("admission", "lambda job, tokens: job.length - 1", "lambda job, tokens: job.length"),
    Change("queue", "(self.key(job), job.arrival, job.entry, job)", "(self.key(job), -job.arrival, job.entry, job)"),
    Change("queue", "            if job.entry == entry:\n", "            if job.entry:\n"),
    Change("queue", "spell.admissions_before >= self.max_overtaken", "spell.admissions_before > self.max_overtaken"),
    Change("queue", "in self.spells and not (spell.is_out or spell.is_next)", "in self.spells and not spell.is_next"),
    Change("queue", "if job in self.spells and not", "if not"),
    Change("members", "if self.since.get(job) == began:", "if job in self.since:"),
    Change(
        "clients",
        "[min(job.rate * self._price(job), LARGEST) for job in jobs]",
        "[min(job.rate * self._price(job), 2**31 - 1) for job in jobs]",
    ),
    Change("clients", "[min(job.rate, LARGEST) for job in jobs]", "[min(job.rate, 2**31 - 1) for job in jobs]"),
    Change("running", "        job.is_live = False\n", "        pass\n"),
    Change("ticks", "if ends or free < 0:", "if ends or free < -1:"),
)
TWINS = (
    Change(
        "room",
        "charge = -(-max(tokens, reserve) // block_size)",
        "charge = max(tokens, reserve) // block_size + 1",
        "test_admit_fcfs.py",
    ),
    Change(
        "vtc_round",
        "counters[client] += charge[job]",
        "counters[client] += charge[job] & 0x7FFFFFFF",
        "test_vtc_round.py",
    ),
    Change("settle", "        state.waits[job.group] -= shares\n", "", "test_scheduler.py"),
    Change("budget", "given = min(max(wish, 0), left)", "given = min(max(wish, 0), left + 1)", "test_budget.py"),
    Change("budget", "-(-missing // block_size) if", "missing // block_size + 1 if", "test_budget.py"),
    Change("victims", "sum(needs[:stay])) < 0:", "sum(needs[:stay])) <= 0 and stay:", "test_victims.py"),
    Change(
        "victims",
        "for index in range(stay) if needs[index]",
        "for index in range(len(needs)) if needs[index]",
        "test_victims.py",
    ),
    Change(
        "room",
        "tokens < prompt):\n            return entering._replace(why=NO_TOKENS)",
        "tokens <= prompt):\n            return entering._replace(why=NO_TOKENS)",
        "test_admit_fcfs.py",
    ),
    Change("room", "> entering.blocks_left - kept:", ">= entering.blocks_left - kept:", "test_admit_fcfs.py"),
    Change(
        "room",
        "if running + len(entering.tokens) >= seats:",
        "if running + len(entering.tokens) > seats:",
        "test_admit_fcfs.py",
    ),
    Change("allocate", "for table in reversed(tables[stay:]):", "for table in tables[stay:]:", "test_allocate.py"),
    Change("allocate", "free.append(table.pop())", "free.append(table.pop(0))", "test_allocate.py"),
    Change(
        "vtc_round",
        "key=lambda number: counters[number])",
        "key=lambda number: (counters[number], -number))",
        "test_vtc_round.py",
    ),
    Change("settle", "job.outputs >= job.declared:", "job.outputs > job.declared:", "test_scheduler.py"),
    Change("settle", "if job.epoch != entry.epoch:", "if job.epoch < entry.epoch:", "test_scheduler.py"),
    Change("settle", "reversed(state.tables.pop(place))", "state.tables.pop(place)", "test_scheduler.py"),
    Change(
        "settle",
        "(2 * job.outputs - 1) * job.square_cost",
        "(2 * job.outputs + 1) * job.square_cost",
        "test_scheduler.py",
    ),
    Change("lift", "max(state.virtual_time, min(waiting))", "min(waiting)", "test_scheduler.py"),
    Change("lift", "max(state.counters[group], lifted)", "lifted", "test_scheduler.py"),
    Change("issue", "victims = state.running[stay:][::-1]", "victims = state.running[stay:]", "test_scheduler.py"),
    Change("issue", "job.known -= job.in_flight", "pass", "test_scheduler.py"),
    Change(
        "look",
        "0 if job.outputs + job.in_flight >= job.declared",
        "0 if job.outputs + job.in_flight > job.declared",
        "test_scheduler.py",
    ),
    Change("look", "return job.length - 1", "return job.length", "test_scheduler.py"),
    Change(
        "line",
        "key=lambda place: state.jobs[place].order)",
        "key=lambda place: state.jobs[place].order[::2])",
        "test_scheduler.py",
    ),
)
