"""What would have been right: for a broken conjunct one sentence that needs no formula.

`INSTEAD[rule, what the conjunct says]`: words in braces are facts of the violation; `who` is who was submitted.  A
conjunct whose formula has changed finds no sentence here, and then its page has none: nothing is said that may be
wrong.
"""

from collections.abc import Mapping

GLOSSARY: Mapping[str, str] = {
    "admitted_in": "the last step that admitted a request",
    "base": "the first position that a block holds",
    "blocks_alone": "the blocks that it holds at its end, if it is alone",
    "content": "the prefix that a block holds",
    "covered": "the cached and prefilled positions since its admission",
    "decode": "the decode tokens of the step",
    "displaced": "the requests that were preempted and not resumed",
    "evictable": "the blocks that nobody holds and the prefix index names",
    "freed": "the number of blocks that became free for this preemption",
    "goal": "the positions known when it was (re)admitted, where prefill ends",
    "grown": "the requests that took blocks in this call",
    "held": "the blocks that a request holds",
    "high": "the most positions it has needed since it last gave blocks back",
    "holders": "the requests that hold a block",
    "in_flight": "the number of its tokens whose step has not completed",
    "indexed": "the blocks that the prefix index names",
    "issued": "the number of positions that steps have scheduled",
    "host_free": "the host blocks that hold nothing",
    "host_room": "the number of positions that its host blocks hold",
    "kept": "the positions with which a request was swapped",
    "known": "prompt, delivered outputs and tokens in flight",
    "late": "the requests whose result came too late to count",
    "leaving": "the requests that gave blocks back and are still there",
    "moving": "the requests that took or gave back host blocks and neither left nor came back",
    "owed": "the requests whose token came back and is not delivered",
    "place": "the place in the waiting queue, smaller is earlier",
    "preempted_in": "the last step that preempted a request",
    "prefill": "the prefill tokens of the step",
    "refs": "the reference count of a block",
    "room": "the number of positions that its blocks hold",
    "sampled": "the token that the model computed",
    "saved": "the host blocks that hold the KV of a request",
    "sealed": "the blocks whose content the index has fixed",
    "served_in": "the last step in which a request ran",
    "spare": "the requests that were preempted while their token was under way",
    "stopping": "the requests whose last token came back",
    "terminal_events": "how many ends a request has had",
    "unserved": "the requests that were admitted in this step and do not run in it",
    "usable_blocks": "the blocks of the pool that are not set aside",
    "victim_key": "the order of preemption, the largest goes first",
}
"""Variables of the formulas, for a reader who has not seen one before."""

OF_TRANSFERS: Mapping[str, str] = {
    "awaited": "the blocks that are set aside in the decode pool for what will arrive",
    "awaited_of": "the blocks that the decode pool has set aside for a request",
    "deadline": "when the time of a transfer is up",
    "decoded": "the positions that a request ran in the decode pool",
    "due_at_source": "the requests whose blocks the prefill pool still has to release in this call",
    "due_at_target": "the requests whose blocks the decode pool still has to release in this call",
    "goal": "the positions known when its prefill began",
    "in_decode": "that it is in the decode pool",
    "lent": "the blocks of the prefill pool that wait to be pulled",
    "lent_of": "the blocks in which a request is held",
    "moving": "the requests whose transfer stands",
    "reach": "the positions that were handed over",
    "reported": "the requests whose transfer has ended, as the link says",
    "source": "the requests of which the prefill pool holds blocks",
    "tabled": "the blocks that are in a table",
    "target": "the requests for which the decode pool holds blocks",
    "told": "whether the link said so",
    "writing": "the requests for which the link writes",
}
"""The same of the formulas about two pools."""

INSTEAD: Mapping[tuple[str, str], str] = {
    # KV
    ("KV-1", "block ∈ free ∨ block ∈ evictable"): "{request} takes a block that is free; block {block} is in use",
    ("KV-1", "block ∈ evictable ∨ block ∈ in_use"): "{request} shares a block that holds something; {block} is free",
    (
        "KV-1",
        "|free| + |evictable| + |in_use| + |aside| = pool_blocks",
    ): "free {free}, evictable {evictable}, in use {in_use} and set aside {aside} add up to all {pool_blocks} blocks",
    ("KV-2", "holders[block] = ∅"): "a block that nobody holds is taken; block {block} belongs to {holders[block]}",
    ("KV-2", "block ∈ sealed"): "only a block that the prefix index named can be shared; block {block} is not one",
    (
        "KV-2",
        "base[block] = room[request]",
    ): "{request} shares the block that continues its own at position {room[request]}; block {block} starts elsewhere",
    (
        "KV-2",
        "content[block] = prefix[request][room[request]]",
    ): "{request} shares a block that holds its own prefix, computed with its own adapter; block {block} holds another",
    ("KV-2", "request ∈ holders[block]"): "a block is indexed for one of its holders; {request} does not hold {block}",
    ("KV-3", "∀ b: refs[b] = |holders[b]|"): "the reference count of a block is the number of tables that list it",
    ("KV-3", "request ∉ holders[block]"): "{request} holds block {block} already, and is counted once",
    (
        "KV-4",
        "start + tokens ≤ room[request]",
    ): "before {request} runs from position {start} it takes a block for it: what it holds ends at {room[request]}",
    (
        "KV-4",
        "cached ≤ room[request]",
    ): "{request} holds the blocks of the {cached} tokens that are called cached; it has room for {room[request]}",
    (
        "KV-5",
        "room[request] < high[request] + block_size + lookahead",
    ): "{request} has needed {high[request]} positions so far, and takes no block that begins after them",
    ("KV-5", "room[request] = 0"): "{request} gives back all its blocks when it is preempted",
    ("KV-6", "leaving = ∅"): "whoever gives blocks back leaves in the same call: {leaving} did not",
    ("KV-6", "a table is what its deltas say"): "the table of {request} is {true}, as its deltas built it",
    ("KV-7", "held[request] = ∅"): "{request} gives back its blocks before it leaves (a delta gave): {held[request]}",
    (
        "KV-7",
        "phase[request] = waiting ∨ phase[request] = running",
    ): "{request} is {phase[request]}, and gets no block",
    ("KV-8", "request ∈ holders[block]"): "{request} gives back what it holds; block {block} it does not hold",
    ("KV-8", "the free list names a block once"): "the free list names block {block} once, not {times} times",
    ("KV-8", "the evictable list names a block once"): "the list names block {block} once, not {times} times",
    ("KV-10", "unserved = ∅"): "whoever is admitted runs in the same step: {unserved} should be in the plan",
    ("KV-10", "admitted_in[request] ≠ step"): "{request} was admitted in this very step, so it is not its victim",
    (
        "KV-11",
        "running ≠ ∅ ⇒ watermark ≤ |free| + |evictable|",
    ): "the admission waits: while others run {watermark} blocks stay free",
    (
        "KV-13",
        "a block that others hold, or that the index names, is not written at positions already issued",
    ): "{request} copies block {block} and writes to the copy; holders are {holders}",
    (
        "KV-14",
        "base[block] + block_size ≤ known[request] - in_flight[request]",
    ): "block {block} is indexed when all its tokens are known",
    ("KV-14", "block ∈ indexed"): "the index forgets what it names; it does not name block {block}",
    ("KV-14", "block ∉ indexed"): "the index forgets block {block} (a delta unindexed) before somebody takes it",
    ("KV-14", "the index names what its deltas say"): "the deltas say of block {block} being in the index: {true}",
    (
        "KV-16",
        "phase[request] = running ∨ held[request] = ∅",
    ): "{request} is {phase[request]} after this call, so it keeps no block of it",
    (
        "KV-3",
        "∀ b: b ∈ free ∨ b ∈ evictable ∨ b ∈ in_use ∨ b ∈ aside",
    ): "each of the {pool_blocks} blocks is free, evictable, in use or set aside, so that none is lost",
    (
        "KV-3",
        "∀ b: b ∈ free ⇒ b ∉ evictable ∧ b ∉ in_use ∧ b ∉ aside",
    ): "a block that is free is nothing else: not evictable, in use, or set aside",
    (
        "KV-15",
        "a leased block is neither taken nor forgotten before its lease is over",
    ): "block {block} stays as it is until its lease is over",
    ("KV-19", "obligations are shown while they last"): "the snapshot shows these obligations: {true}",
    # two pools
    ("XFER-1", "request ∉ source ∧ request ∉ target"): (
        "{request} is prefilled again when both pools have let go of what they hold of it (a delta released)"
    ),
    ("XFER-1", "request ∉ target"): "{request} has blocks in the decode pool: those are released first",
    ("XFER-1", "request ∉ source"): "{request} decodes when the prefill pool has let go of it (a delta released)",
    (
        "XFER-2",
        "stage[request] = arrived",
    ): "{request} is {stage[request]}, and decodes when the link has said that its transfer is done",
    (
        "XFER-2",
        "told",
    ): "the transfer of {request} stands until the link says transfer_done of that very number",
    ("XFER-2", "in_decode ⇒ stage[request] = decoding"): "{request} is {stage[request]}, and is in no decode step",
    (
        "XFER-3",
        "|lent_of[request]| = blocks",
    ): "{request} is held in all {blocks} blocks of its table; {|lent_of[request]|} were listed",
    ("XFER-3", "block ∈ tabled"): "{request} is held in blocks of its own table; {block} is in none",
    (
        "XFER-3",
        "block ∉ lent",
    ): "block {block} waits to be pulled, and is nobody's until the delta released that gives it back",
    (
        "XFER-3",
        "who does not run in the decode pool yet holds so many blocks of it at most",
    ): "{request} stays where it is until others run: with it {aside} blocks are set aside, and {most} may be",
    ("XFER-3", "a block under an obligation is not free"): "the list of free blocks leaves out block {block}",
    ("KV-9", "a block under an obligation is not free"): "the list of free blocks leaves out block {block}",
    ("XFER-3", "obligations are what their deltas say"): "that block {block} is under an obligation is {true}",
    ("KV-9", "obligations are what their deltas say"): "that block {block} is under an obligation is {true}",
    ("XFER-4", "stage[request] = held"): "{request} is {stage[request]}; only who is held is pulled, once",
    ("XFER-4", "request ∉ source"): "{request} is held already: its blocks are released before it is held again",
    (
        "XFER-4",
        "block ∈ lent_of[request] ∨ block ∈ awaited_of[request]",
    ): "{request} releases what is kept for it; block {block} is not",
    ("XFER-4", "¬in_decode ⇒ request ∈ source"): "nothing of {request} is left to release in the prefill pool",
    (
        "XFER-4",
        "¬in_decode ⇒ request ∈ due_at_source",
    ): "{request} keeps its blocks in the prefill pool until its transfer is over, or it has ended",
    (
        "XFER-4",
        "¬in_decode ⇒ lent_of[request] = ∅",
    ): "all blocks of {request} are released at once; left over is {lent_of[request]}",
    ("XFER-4", "request ∈ moving"): "no transfer of {request} stands that could be done",
    (
        "XFER-4",
        "due_at_source = ∅",
    ): "the prefill pool releases its blocks of {due_at_source} in this call (a delta released)",
    (
        "XFER-5",
        "now_ns < min(deadline over moving, else now_ns + 1)",
    ): "at {now_ns} ns the time of a transfer is up, and this call says so of it (a delta transferred, with timeout)",
    (
        "XFER-5",
        "due_at_target = ∅",
    ): "the decode pool releases what it set aside for {due_at_target} in this call (a delta released)",
    ("XFER-5", "reported = ∅"): "the link told how the transfer of {reported} went: this call says so (transferred)",
    ("XFER-5", "request ∈ moving"): "no transfer of {request} stands that could be lost",
    (
        "XFER-5",
        "in_decode ⇒ request ∈ due_at_target",
    ): "the decode pool keeps what it set aside for {request} until the transfer is over",
    (
        "XFER-5",
        "in_decode ⇒ awaited_of[request] = ∅",
    ): "all that was set aside for {request} is released at once; left over is {awaited_of[request]}",
    (
        "XFER-6",
        "¬in_decode ⇒ start + tokens ≤ goal[request]",
    ): "the prefill of {request} ends at {goal[request]}; what follows runs in the decode pool",
    (
        "XFER-6",
        "in_decode ⇒ reach[request] ≥ 1 ∧ reach[request] + decoded[request] = start",
    ): "{request} goes on in the decode pool where its prefill ended, after {reach[request]} positions",
    ("XFER-6", "in_decode ⇒ tokens = 1"): "{request} runs one token a step in the decode pool",
    (
        "KV-9",
        "block ∈ awaited_of[request] ⇒ request ∉ writing",
    ): "block {block} stays aside until the link, which writes to it, has ended",
    (
        "KV-9",
        "block ∉ awaited ∧ block ∉ lent ∧ block ∉ tabled",
    ): "a free block is set aside for {request}; block {block} is in use",
    ("KV-9", "block ∉ awaited"): "block {block} is set aside for what will arrive, and is taken by nobody",
    (
        "KV-9",
        "blocks ≤ |awaited_of[request]|",
    ): "{blocks} blocks are set aside for {request} when it is pulled, not {|awaited_of[request]|}",
    ("KV-9", "block ∈ awaited_of[request]"): "{request} adopts what was set aside for it; block {block} was not",
    ("KV-9", "request ∉ writing"): "{request} adopts its blocks when the link has ended",
    (
        "KV-9",
        "request ∈ writing ⇒ told",
    ): "the link writes for {request} until it says that it has ended, or the time of the transfer is up",
    # STEP
    (
        "STEP-1",
        "prefill ≠ 0 ⇒ prefill + decode ≤ token_budget",
    ): "prefill gets what {decode} decode tokens leave of the budget of {token_budget}",
    ("STEP-1", "prefill + decode ≤ token_budget"): "the step has at most {token_budget} tokens, decodes included",
    ("STEP-2", "|running| ≤ seats"): "at most {seats} run at the same time",
    ("STEP-3", "served_in[request] ≠ step"): "{request} has one entry in the plan of a step",
    ("STEP-3", "step < e.step"): "the number of a step is larger than that of the step before",
    ("STEP-4", "start = issued[request]"): "{request} starts at position {issued[request]}, where it left off",
    ("STEP-4", "tokens ≥ 1"): "{request} runs at least one token, or is left out of the plan",
    (
        "STEP-4",
        "start + tokens ≤ known[request]",
    ): "{request} ends at {known[request]} at the latest: more tokens it does not have yet",
    ("STEP-5", "phase[request] = running"): "{request} is {phase[request]}, and is not in the plan",
    (
        "STEP-6",
        "start + tokens = known[request] ⇒ samples = 1",
    ): "{request} samples: its entry reaches the end of what is known",
    (
        "STEP-6",
        "start + tokens ≠ known[request] ⇒ samples = 0",
    ): "{request} does not sample: its entry ends before {known[request]}, the end of what is known",
    ("STEP-6", "goal[request] ≤ start ⇒ tokens = 1"): "{request} is past its prefill, and runs one token a step",
    ("STEP-7", "preempted_in[request] ≠ step"): "{request} was preempted in this step, and is not in its plan",
    ("STEP-7", "served_in[request] ≠ step"): "{request} runs in this step, and is not preempted in it",
    (
        "STEP-8",
        "a running request with its blocks in hand is in every step that has budget left",
    ): "{request} is in the plan too: it holds the block that it needs, and {budget_left} tokens of budget are left",
    (
        "STEP-11",
        "start < goal[request] ⇒ start + tokens ≤ goal[request]",
    ): "the chunk ends at {goal[request]}, where the prefill of {request} ends",
    (
        "STEP-11",
        "start < goal[request] ∧ start + tokens = known[request] ⇒ covered[request] + tokens = goal[request]",
    ): "cached tokens and chunks add up to {goal[request]}: some positions of {request} never ran",
    ("STEP-11", "cached < known[request]"): "at least one of the {known[request]} tokens of {request} is computed",
    (
        "STEP-9",
        "every decode that could run is in every step",
    ): "{request} is in the step with its next token, before any of the {prefill} prefill tokens",
    (
        "STEP-10",
        "at most so many steps in a row do prefill alone while a decode could run",
    ): "after {most} steps of prefill alone {decode} gets its next token",
    (
        "STEP-12",
        "one prompt gets at most so many tokens of a step while another waits for prefill",
    ): "{request} gets {most} tokens of this step, and the rest is for those who wait for prefill",
    (
        "STEP-14",
        "no step takes longer than the inter-token objective by the time model",
    ): "the step ends at fewer than {tokens} tokens: with them it may take {takes} ns, and the objective is {most}",
    (
        "STEP-15",
        "so many prompts at most are in prefill at once",
    ): "of {prompts} the last to come waits until a prefill has ended: at most {most} are in prefill at once",
    (
        "STEP-13",
        "who came earlier has run in at least as many steps",
    ): "{earlier}, which came earlier, runs before {later} runs once more",
    (
        "STEP-16",
        "no step has both prefill and decode in it",
    ): "the step has its {prefill} prefill tokens or its {decode} decode tokens, not both",
    (
        "STEP-17",
        "no request is in two steps that are in flight",
    ): "{request} is left out until the result of the step that it is in has come",
    (
        "STEP-18",
        "a chunk that does not end its prompt leaves nothing of the budget",
    ): "{request} takes what is left of the budget too, {budget_left} tokens, or as much of it as its prompt has",
    (
        "LIVE-5",
        "nobody is parked when its time is over",
    ): "{request} waits again, or ends, at {until_ns} ns at the latest",
    (
        "LIVE-6",
        "some running request can finish with what it holds and what is free, or somebody is preempted",
    ): "somebody is preempted: free is {available}, and each of {stuck} lacks {least_missing} or more",
    ("LIVE-9", "while nobody runs somebody who waits is admitted"): "one of those who wait is admitted: nobody runs",
    (
        "LIVE-12",
        "the request picked has the longest cached prefix of those that wait",
    ): "{passed} is next: of its tokens {longer} are cached, of those of {picked} {cached}",
    (
        "FAIR-21",
        "the client picked has the least counter, less the credit of those who have waited long",
    ): "{passed} is next, whose counter of {least} is less than the {counter} of {picked}",
    (
        "LANE-8",
        "the lane picked has the least counter, less the credit of those that have waited long",
    ): "the lane {passed} is next, whose counter of {least} is less than the {counter} of {picked}",
    (
        "STEP-19",
        "so many adapters at most are in use at once",
    ): "of those who need {adapters} one waits until another adapter is in use no more: at most {slots} are at once",
    (
        "STEP-20",
        "the last token of a request is never run",
    ): "{request} is in no further step: the token at position {last} is its last, and ends it when it comes",
    # LIFE
    ("LIFE-1", "every request that has not ended is somewhere"): "{request} has not ended: the snapshot lists it",
    ("LIFE-1", "nobody who ended is anywhere"): "{request} has ended: the snapshot does not list it",
    ("LIFE-1", "a request is where its deltas say"): "by its deltas {request} is {true}; the snapshot says {shown}",
    ("LIFE-2", "phase[request] = absent"): "{request} is there already, and is answered with duplicate",
    ("LIFE-2", "phase[request] = waiting"): "only who waits is admitted; {request} is {phase[request]}",
    ("LIFE-2", "phase[request] = running"): "only who runs is preempted; {request} is {phase[request]}",
    ("LIFE-3", "terminal_events[request] = 0"): "{request} has ended before, and ends once",
    ("LIFE-4", "token = sampled"): "{request} gets the token that the model computed, {sampled}, not {token}",
    ("LIFE-4", "owed = ∅"): "the tokens of {owed} are delivered in the call that brings them",
    ("LIFE-4", "e.phase = finished ⇒ request ∉ owed"): "the last token of {request} is delivered before it ends",
    ("LIFE-5", "stopping = ∅"): "this was the last token of {stopping}: the request ends in this call",
    ("LIFE-5", "e.phase = finished ⇒ request ∈ stopping"): "{request} goes on: it has not got its last token",
    ("LIFE-6", "phase[request] ≥ refused"): "{request} has ended when cancel returns; it is {phase[request]}",
    ("LIFE-6", "phase[request] ≥ refused ⇒ request ∈ late"): "{request} has ended, and gets no more tokens",
    ("LIFE-10", "whose client is gone has ended"): "{request} is cancelled: nobody reads what it brings",
    ("LIFE-10", "who declared to survive a disconnect goes on"): "{request} goes on: it declared to survive that",
    ("LIFE-7", "request ∈ late ⇒ request ∈ owed ∨ request ∈ spare"): "nobody waits for this token: it is dropped",
    ("LIFE-7", "request ∈ late ⇒ e.phase ≠ finished"): "the result is stale: it ends nobody",
    ("LIFE-7", "repeated ⇒ deltas = 0"): "the result came before, so the answer is empty",
    ("LIFE-8", "placeholders equal what is in flight"): "{true} tokens of {request} are in flight, not {shown}",
    ("LIFE-9", "e.phase = failed ⇒ ¬fits_alone"): "who would fit alone waits until there is room, and does not fail",
    # PRE
    (
        "PRE-1",
        "the last victim of a step was needed: growth did not fit without what it freed",
    ): "{victim} stays: what the others need fits without its blocks ({left_over} to spare)",
    (
        "PRE-2",
        "victim_key[request] = max(victim_key over running, else 0)",
    ): "another one of {running} is the victim: the one whose key is {max(victim_key over running, else 0)}",
    ("PRE-3", "¬for_itself ⇒ freed ≥ 1"): "a victim whose leaving frees a block is chosen, or none",
    (
        "PRE-4",
        "what a preemption freed went to requests that ran before, not to an admission",
    ): "{victim} keeps running, and who waits keeps waiting",
    (
        "PRE-5",
        "nobody admitted earlier is preempted to keep somebody admitted later",
    ): "{kept} is preempted, not {victim}: it was admitted later",
    ("PRE-6", "who runs alone is not preempted: it comes back to the same memory, and that for ever"): (
        "{victim} runs on, or is left out of the step if all of its tokens are under way; if it cannot fit, it is "
        "refused at the door, or ends as failed"
    ),
    ("PRE-6", "a preemption leaves somebody running who ran before"): "one of {victims} stays, so that it can get on",
    (
        "PRE-7",
        "displaced ≠ ∅ ⇒ place[request] ≤ min(place over displaced, else place[request])",
    ): "those who were preempted come first: one of {displaced}, not {request}",
    ("PRE-7", "resumed ⇒ request ∈ displaced"): "{request} was not preempted, so it is admitted, not resumed",
    ("PRE-7", "request ∈ displaced ⇒ resumed"): "{request} was preempted, so it is resumed, not admitted",
    (
        "PRE-8",
        "prompt[request] < goal[request] ∧ samples = 1 ⇒ goal[request] ≤ start + tokens",
    ): "{request} computes all {goal[request]} positions again, its outputs included, before it samples",
    ("PRE-9", "block ∈ host_free"): "{request} is saved in a host block that is free; {block} saves another one's KV",
    (
        "PRE-9",
        "host_room[request] + block_size ≤ room[request]",
    ): "{request} is saved before it gives its blocks back, and a block at most once",
    ("PRE-9", "block ∈ saved[request]"): "{request} gives back what it has: host blocks {saved[request]}",
    (
        "PRE-9",
        "issued[request] = computed[request]",
    ): "{request} is recomputed, or swapped when its step has completed: computed are {computed[request]} positions",
    ("PRE-9", "in_flight[request] = 0"): "{request} is recomputed, or swapped when its token is there",
    ("PRE-9", "computed[request] ≥ 1"): "{request} is recomputed: of nothing there is nothing to save",
    (
        "PRE-9",
        "computed[request] ≤ host_room[request]",
    ): "{request} is saved whole: computed are {computed[request]} positions, and saved {host_room[request]}",
    (
        "PRE-9",
        "kept[request] ≥ 1 ⇒ cached = kept[request]",
    ): "{request} comes back with all the {kept[request]} positions that it had computed",
    (
        "PRE-9",
        "kept[request] ≥ 1 ⇒ kept[request] < room[request]",
    ): "before {request} comes back it takes blocks for what it kept and one position more, or waits",
    (
        "PRE-9",
        "saved[request] = ∅",
    ): "{request} gives back its host blocks (a delta swapped_in or dropped): {saved[request]}",
    ("PRE-9", "moving = ∅"): "host blocks are taken and given back in the call in which a request leaves: {moving}",
    (
        "PRE-9",
        "the free host blocks are what the deltas say, each once",
    ): "the free host blocks are {true}, each listed once",
    ("PRE-9", "the host blocks of a request are what its deltas say"): "{request} is saved in host blocks {true}",
    (
        "PRE-10",
        "who costs less to recompute is not swapped",
    ): "{victim} is recomputed: that takes {recompute_ns} ns, and out and in {swap_ns}",
    (
        "PRE-10",
        "who costs less to swap is not recomputed",
    ): "{victim} is swapped: out and in take {swap_ns} ns, and to compute it again {recompute_ns}",
    (
        "PRE-11",
        "who takes the place of others costs less than the delay that it avoids",
    ): "{admitted} waits for {victims}: their place costs {costs_ns} ns, and waiting {avoids_ns} at most",
    # LIVE, LANE
    (
        "LIVE-1",
        "with unfinished work and nothing in flight, some token is scheduled",
    ): "the plan runs somebody: {running} running, {waiting} waiting, and no step is under way",
    (
        "LIVE-2",
        "when the run ends every accepted request has ended",
    ): "{unfinished} end: finished, cancelled, expired or failed",
    (
        "LIVE-2",
        "once arrivals stop, every accepted request ends within a computed number of steps",
    ): "{unfinished} end by now: since the last submission {steps_since_arrival} steps were enough for everybody",
    (
        "LIVE-3",
        "a waiting request is overtaken at most so often",
    ): "{overtaken} is admitted before {admitted}: it has been overtaken {most} times already",
    (
        "LIVE-7",
        "A request that fits, and needs no adapter or one that is in use, is not delayed by one that is blocked on an "
        "adapter; order binds only requests that are not so blocked.",
    ): "{request} is admitted: it needs no adapter that is missing, and {available_blocks} blocks are free",
    (
        "LIVE-8",
        "Budget, seats and memory stay idle while an admissible request waits only for a declared reason: the head of "
        "the queue that does not fit (but if `skip` is claimed only a victim, and only with `resume_order`), the "
        "watermark, a cap, the admission period, a batch that runs to its end, a step that decodes where decode comes "
        "first and no step mixes phases.",
    ): "{request} is admitted: free are {available_blocks} blocks, {budget_left} tokens of budget, {seats_left} seats",
    (
        "LIVE-10",
        "who is first does not wait while preempting worse classes would let it start",
    ): "{request} is admitted in the place of one or more of {worse}, which are of a worse class",
    (
        "LIVE-11",
        "What fits is not left idle behind what does not.",
    ): "{request} is admitted: free are {available_blocks} blocks, {budget_left} tokens of budget, {seats_left} seats",
    (
        "LANE-4",
        "nobody who waits in the same lane and client stands before who is admitted",
    ): "{overtaken} is admitted first, then {admitted}",
    (
        "LANE-1",
        "a lane that waits gets its share of all service, less a constant",
    ): "a request of {lane} is admitted before the lane is {bound} behind its share",
    (
        "LANE-2",
        "No capacity idles for a lane's share while another lane has admissible work: with budget, seats and blocks "
        "left for whoever waits, in whatever lane, somebody is admitted. A maximum of a lane is no excuse.",
    ): "{request} is admitted: free are {available_blocks} blocks, {budget_left} tokens of budget, {seats_left} seats",
    (
        "LANE-3",
        "a lane that came back comes ahead of one that waits by at most its burst and a constant",
    ): "a request of {waits} is admitted before {lane} comes ahead by more than {bound}",
    (
        "LANE-3",
        "before the first admission of a lane that came back no other gets more than a constant",
    ): "a request of {lane} is admitted before {served} has got more than {bound}",
    (
        "LANE-3",
        "the step that admits the first request of a lane that came back preempts nobody for it",
    ): "{admitted} waits until there is room: {victims} go on running",
    (
        "LANE-5",
        "the lane that is picked is above the least by at most the credit of aging",
    ): "a lane is picked whose counter is at most {least} + {credit}; that of {picked} is {counter}",
    (
        "LANE-6",
        "who arrives under the declared load is admitted within the objective",
    ): "{request} is admitted within {objective_steps} steps of its arrival",
    (
        "FAIR-1",
        "the client picked has the least counter of all clients with waiting work",
    ): "a request of {passed} is admitted: its counter is {least}, and that of {picked} is {counter}",
    (
        "FAIR-2",
        "a counter changes by its charges and lifts alone",
    ): "the counter of {client} is {true} after its charge",
    ("FAIR-3", "a counter changes by its charges and lifts alone"): "{client} comes back with a counter of {true}",
    ("FAIR-4", "a counter changes by its charges and lifts alone"): "{client} comes back with a counter of {true}",
    ("FAIR-5", "a counter changes by its charges and lifts alone"): "{client} waits again with a counter of {true}",
    ("FAIR-6", "a counter changes by its charges and lifts alone"): "the counter of {client} is {true}, not {shown}",
    (
        "FAIR-8",
        "two clients that wait differ in service by at most 2U",
    ): "{waits} is served before {served} comes ahead by more than {bound}",
    (
        "FAIR-9",
        "a client that waits falls at most 3U behind any other",
    ): "{waits} is served before {served} comes ahead by more than {bound}",
    (
        "FAIR-7",
        "counters of clients that wait differ by at most U + S",
    ): "{client} waits until the others have as much: its counter is {spread} above the least, and may be {bound}",
    (
        "FAIR-10",
        "two clients that wait differ in priced service by at most 2U",
    ): "{waits} is served before {served} comes ahead by more than {bound}",
    (
        "FAIR-10",
        "a client that waits falls at most 3U of priced service behind any other",
    ): "{waits} is served before {served} comes ahead by more than {bound}",
    (
        "FAIR-11",
        "nobody is admitted past a client with the least counter whose request does not fit",
    ): "the round ends at the request of {passed}: its counter is {least}, and that of {picked} is {counter}",
    (
        "FAIR-12",
        "what running requests of a client may still be charged is within the cap at a pick",
    ): "{request} waits until less of {client} is under way: with it {committed} may be charged, and the cap is {cap}",
    (
        "FAIR-13",
        "a counter changes by its charges and lifts alone",
    ): "the counter of {client} is {true} after its refund",
    (
        "FAIR-14",
        "a counter changes by its charges and lifts alone",
    ): "the counter of {client} is {true} in the declared unit of service",
    (
        "FAIR-15",
        "two clients that wait differ in service by at most 2(U + Q)",
    ): "{waits} is served before {served} comes ahead by more than {bound}",
    (
        "FAIR-16",
        "two clients that wait differ in service by at most 2(U + Q)",
    ): "{waits} is served before {served} comes ahead by more than {bound}",
    (
        "FAIR-17",
        "the client picked is at most the aging credit above the least counter",
    ): "a request of {passed} is admitted: its counter is {least}, and that of {picked} may be {credit} above it",
    (
        "FAIR-17",
        "who is preferred has seen aging_picks admissions while it waited",
    ): "a client with the least counter of {least} is picked: nobody of {picked} has waited long enough",
    (
        "FAIR-18",
        "a newcomer is admitted before the others have got more than 2U each",
    ): "{request} is admitted before the others have got more than {bound}",
    (
        "FAIR-19",
        "the client picked has got the least service of all clients with waiting work",
    ): "a request of {passed} is admitted: it has got {least}, and {picked} has got {got}",
    (
        "FAIR-20",
        "no client is picked twice while another one waits that is not picked",
    ): "a request of {passed} is admitted, which has waited since before {picked} was picked the last time",
    (
        "LANE-7",
        "what runs stays within the declared caps",
    ): "the request waits until less is running: with it there are {value}, and the cap is {cap}",
    # ADMIT, OBS
    (
        "ADMIT-1",
        "blocks_alone ≤ usable_blocks",
    ): "{who} is refused (kv_blocks): it needs {blocks_alone} blocks, and the pool has {usable_blocks}",
    ("ADMIT-1", "chunked ∨ e.prompt ≤ token_budget"): "{who} is refused (token_budget): its prompt cannot be split",
    ("ADMIT-1", "reason ≠ 5 ⇒ limit < value"): "{who} is accepted: {value} is within the limit of {limit}",
    (
        "ADMIT-1",
        "reason = 0 ⇒ usable_blocks < blocks_alone",
    ): "{who} is accepted: it needs {blocks_alone} blocks, and the pool has {usable_blocks}",
    ("ADMIT-2", "e.prompt ≤ max_prompt"): "{who} is refused (prompt_tokens): {prompt} against {max_prompt}",
    ("ADMIT-2", "e.max_output ≤ max_output"): "{who} is refused (output_tokens): {max_output} is too much",
    ("ADMIT-2", "e.prompt + e.max_output ≤ max_model"): "{who} is refused (model_tokens): at most {max_model}",
    (
        "ADMIT-3",
        "what waits for its first admission is within the capacity of the queue",
    ): "{request} is refused ({reason}): with it there are {there}, and the capacity is {most}",
    (
        "ADMIT-3",
        "nobody is refused for a queue that has room",
    ): "{request} is accepted: with it there are {there}, and the capacity is {most}",
    (
        "ADMIT-4",
        "nobody waits longer than the queue-age deadline",
    ): "{request} has expired: it has waited {waited} ns, and may wait {most}",
    ("ADMIT-4", "nobody expires before its time"): "{request} waits on: it has waited {waited} ns, and may wait {most}",
    ("ADMIT-4", "nobody expires that was admitted once"): "{request} waits on: the age is of who was never admitted",
    (
        "ADMIT-4",
        "nobody is refused for the queue of an empty system",
    ): "{request} is accepted: nobody else is there, so it waits for nobody",
    (
        "ADMIT-5",
        "who comes again when it was told to is accepted",
    ): "{request} is accepted: it was told to come again at {due} ns, and nobody else has come since",
    (
        "ADMIT-5",
        "who can never be accepted is not told to come again",
    ): "{request} is refused ({reason}) without a time to come again",
    (
        "ADMIT-5",
        "a refusal says the limit and the value",
    ): "the refusal of {request} has a limit and a value",
    (
        "ADMIT-6",
        "a key that is held is answered with its generation",
    ): "{request} is answered with duplicate of {held}, which answers for {key}",
    (
        "ADMIT-6",
        "a key that nobody holds begins a generation",
    ): "{request} is a generation of its own, not {of}",
    (
        "ADMIT-7",
        "what a client, and all of them, have under way is within the declared limits",
    ): "{request} is refused ({reason}): with it there are {there} under way, and the limit is {most}",
    (
        "ADMIT-7",
        "nobody is refused for a limit that has room",
    ): "{request} is accepted: with it there are {there} under way, and the limit is {most}",
    (
        "ADMIT-8",
        "who is accepted is admitted before its queue-age deadline",
    ): "{request} is admitted by now, or was refused when it came: it has waited {waited} ns in vain",
    (
        "ADMIT-8",
        "who is accepted has its first token in time",
    ): "{request} had its first token within {most} ns, or was refused when it came: it took {waited}",
    (
        "ADMIT-10",
        "who asks for no less, at a load that is no smaller, is refused as the one before was",
    ): "{request} is refused, or the one before was accepted: {waiting} wait, and {tokens_left} tokens are left to run",
    (
        "ADMIT-11",
        "a deferral or conversion is in the receipt and in its deltas, once, and the same in both",
    ): "{request} is answered with {receipt} and one delta that says the same of it",
    (
        "ADMIT-11",
        "a deferral or conversion is recorded in the receipt of the request, and of nobody else",
    ): "the delta {delta} of {request} stands in the receipt of {request}",
    (
        "ADMIT-11",
        "what was deferred or converted is not deferred or converted again",
    ): "{request} is accepted, or refused ({reason})",
    (
        "ADMIT-11",
        "an alternative is one that the door declares, within its limits",
    ): "{request} is refused ({reason}), or gets something that the door declares and has room for",
    ("ADMIT-11", "an alternative is for somebody who would be refused"): "{request} is accepted: it breaks no limit",
    (
        "ADMIT-11",
        "who is held is not given up before the time that it was told",
    ): "{request} is held on, until {due_ns} ns at the latest",
    (
        "ADMIT-11",
        "the door has decided by the time that it gave",
    ): "{request} is in, or has expired: that was {due_ns} ns",
    ("ADMIT-11", "an empty system lets in whoever is asynchronous"): "{request} enters: nobody waits or runs",
    ("ADMIT-11", "when the run ends the door holds nobody"): "{held} are in by now, or have expired",
    (
        "ADMIT-12",
        "a client keeps its rate in every window",
    ): "{request} is refused ({reason}): with it there are {there} in the window, and the limit is {most}",
    (
        "ADMIT-12",
        "nobody is refused for a rate that it keeps",
    ): "{request} is accepted: with it there are {there} in the window, and the limit is {most}",
    ("OBS-4", "no duration is negative"): "the parts of {request} are positive, or zero, not {shown}",
    ("OBS-4", "the parts of the time of a request sum to the whole"): "the parts of {request}, {shown}, sum to {whole}",
    (
        "OBS-4",
        "durations are the times between the deltas of a request, once",
    ): "{request} was held, waited and ran for {true} ns, not {shown}",
    ("OBS-4", "durations of a request are logged when it ends"): "a delta spent says {true} of {request}",
    (
        "OBS-5",
        "a choice is logged once, with the place by arrival before the step and the place in the step",
    ): "{request} was at the places {true}, not {before} and {after}",
    (
        "OBS-5",
        "the rule that is logged may be what put the request first",
    ): "another rule than {by} is logged: {request} came at place {before} and was taken at place {after}",
    ("OBS-5", "the rule of each admission is logged"): "a delta chosen says why {request} was next, at places {true}",
    (
        "OBS-6",
        "each preemption is logged with one cause, and nothing else is",
    ): "causes are logged of {preempted}, not of {logged}",
    (
        "OBS-6",
        "a preemption is for a better class where that one is admitted in the step, and else for blocks",
    ): "{request} lost its place for {true}",
    ("OBS-1", "a reason is logged when it changes"): "nothing is logged of {request}: it waits for {limit} as before",
    ("OBS-1", "only who waits has a reason to"): "nothing is logged of {request}, which does not wait",
    ("OBS-1", "not everybody waits for the order"): "whoever stands first of those {waiting} waits for a limit",
    ("OBS-2", "the reason that is logged is a limit that holds"): "{request} waits for another limit than {limit}",
    ("OBS-2", "the reason that is logged is the first limit that holds"): "{request} waits for {first}, before {limit}",
    ("OBS-3", "exported counters equal the state"): "the counter {counter} is {true}, not {shown}",
    ("OBS-3", "exported positions equal the state"): "by its deltas and plans it is {true} for {request}, not {shown}",
}
