"""Which rule breaks with which: one reason for each edge, declared before any run.

An edge says that a break of the first may bring a break of the second in the same message.  A report shows the rules
that no other explains in full, and the others in a line beside them; the tests hold every seeded fault to its closure.
"""

from ..relation import registry

edge = registry.edge

edge("KV-1", "KV-3", "a block that is nowhere is also an unheld block that is in no set")
edge("KV-1", "OBS-3", "the gauge of free blocks counts what the lists hold")
edge("KV-2", "KV-1", "a block that somebody holds is neither free nor evictable when it is taken")
edge("KV-6", "KV-14", "the index names blocks by their place in the table")
edge("KV-10", "STEP-8", "who is admitted and left out of the step is a running request with blocks in hand")
edge("KV-10", "PRE-6", "who was admitted and preempted in one step completed nothing")
edge("KV-10", "KV-5", "blocks acquired for a service that did not happen cover nothing")
edge("KV-12", "KV-14", "what was computed from a wrong read is then named by the index")
edge("KV-16", "KV-5", "blocks of somebody who is not resident cover nothing")
edge("STEP-5", "KV-4", "who was never admitted has no table to cover the range")
edge("STEP-11", "STEP-4", "a chunk left out makes the next one start too late")
edge("LIFE-1", "OBS-3", "who is nowhere is not counted")
edge("LIFE-3", "LIFE-2", "there is no move out of an end")
edge("LIFE-6", "KV-7", "who was not cancelled still holds its blocks")
edge("PRE-3", "PRE-1", "a preemption that frees nothing was not needed for memory")
edge("PRE-4", "PRE-7", "who is evicted for an admission stands before the admitted in the queue")
edge("PRE-4", "LANE-4", "who is evicted for an admission stands before the admitted in the queue")
edge("PRE-7", "LANE-4", "a victim at the back of the queue is overtaken by whoever came after it")
edge("PRE-5", "PRE-2", "newest-first names the newest, not somebody earlier")
edge("PRE-6", "PRE-1", "the last of all victims was not needed: nobody is left who could grow")
edge("PRE-6", "LIVE-1", "where everybody is thrown out nobody runs")
edge("PRE-8", "STEP-6", "the sample behind the prompt does not end what is known")
edge("PRE-8", "KV-5", "blocks were taken for outputs that are not computed")
edge("LIVE-2", "PRE-6", "who never ends may do so without completing a token")
edge("ADMIT-1", "LIVE-1", "who can never fit is at some time all that is left to run")
edge("ADMIT-1", "PRE-6", "who outgrows the pool is preempted though it runs alone")
edge("ADMIT-1", "LIVE-2", "who can never fit never ends")
edge("DET-2", "DET-1", "what a process remembers of former runs is not the same in another one")
edge("LANE-4", "PRE-7", "who overtakes everybody overtakes victims too")
edge("LANE-4", "LIVE-8", "the head of the declared order waits though it fits")
edge("LIVE-11", "LIVE-8", "who claims to go past a blocked head leaves what fits idle without a declared reason")
edge("LIVE-8", "LIVE-11", "a head that fits and waits is something that fits and waits")
