// A fair scheduler over stdio: the Virtual Token Counter as gateways use it.
//
//	go build -o vtc . && schedspec check exec:./vtc        (with blocks: 'exec:./vtc -tables')
//
// Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, Algorithm 2.  Each client has a counter of the
// service that it got.  Whoever has the least counter among the clients with waiting requests is next; input tokens are
// charged when a request is admitted, output tokens when they are delivered.  A client that comes back is lifted, so
// that it cannot live on service which it never asked for.
//
// Memory is the simplest that keeps the paper's bound: an admission reserves all that the request may ever need, and the
// round ends at the first request that does not fit.  Nobody is preempted.  `vtc -h` lists the faults that can be planted.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
)

// --- the fair queue: Algorithm 2

type faults struct {
	noLift, liftToMax, liftAlways, liftMissesEmptyQueue    bool
	noOutputCharge, chargeAtEnd, chargeTwice, chargeCancel bool
	skipBlocked                                            bool
	modulo                                                 int
}

type prices struct{ input, output int }

type client struct {
	counter int
	waiting []*job // in order of arrival
}

// fairQueue holds the clients in the order in which they were first seen: ties go to the first.
type fairQueue struct {
	clients  []*client
	byName   map[string]*client
	lastLeft *client // the client whose last waiting request left the queue most recently
	faults   faults
}

func newFairQueue(f faults) *fairQueue {
	return &fairQueue{byName: map[string]*client{}, faults: f}
}

func (q *fairQueue) add(name string, j *job) {
	c := q.byName[name]
	if c == nil {
		c = &client{}
		q.byName[name] = c
		q.clients = append(q.clients, c)
	}
	j.client = c
	if len(c.waiting) == 0 || q.faults.liftAlways {
		q.lift(c)
	}
	c.waiting = append(c.waiting, j)
}

// lift raises the counter of a client that comes back, and never lowers it: no credit is banked, debt is kept.
func (q *fairQueue) lift(c *client) {
	others := q.others(c)
	switch {
	case q.faults.noLift:
	case len(others) > 0 && q.faults.liftToMax:
		c.counter = max(c.counter, slices.Max(others))
	case len(others) > 0:
		c.counter = max(c.counter, slices.Min(others))
	case q.lastLeft != nil && !q.faults.liftMissesEmptyQueue:
		c.counter = max(c.counter, q.lastLeft.counter)
	}
}

// others are the counters of the other clients that wait.
func (q *fairQueue) others(c *client) []int {
	var counters []int
	for _, other := range q.clients {
		if other != c && len(other.waiting) > 0 {
			counters = append(counters, other.counter)
		}
	}
	return counters
}

// next is the first request of the client with the least counter, nil if nobody waits.
func (q *fairQueue) next(fits func(*job) bool) *job {
	var best *client
	for _, c := range q.clients {
		if len(c.waiting) == 0 || q.faults.skipBlocked && !fits(c.waiting[0]) {
			continue
		}
		if best == nil || q.rank(c) < q.rank(best) {
			best = c
		}
	}
	if best == nil {
		return nil
	}
	return best.waiting[0]
}

func (q *fairQueue) rank(c *client) int {
	if q.faults.modulo > 0 {
		return c.counter % q.faults.modulo
	}
	return c.counter
}

// remove takes a request out, because it is admitted or cancelled.
func (q *fairQueue) remove(j *job) {
	c := j.client
	c.waiting = slices.DeleteFunc(c.waiting, func(other *job) bool { return other == j })
	if len(c.waiting) == 0 {
		q.lastLeft = c
	}
}

func (q *fairQueue) counters() map[string]int {
	shown := map[string]int{}
	for name, c := range q.byName {
		shown[name] = c.counter
	}
	return shown
}

func (q *fairQueue) length() int {
	sum := 0
	for _, c := range q.clients {
		sum += len(c.waiting)
	}
	return sum
}

// --- the scheduler

type settings struct {
	Blocks          int    `json:"blocks"`
	BlockSize       int    `json:"block_size"`
	Seats           int    `json:"seats"`
	TokenBudget     int    `json:"token_budget"`
	WatermarkBlocks int    `json:"watermark_blocks"`
	Policy          string `json:"policy"`
	AtBlockedHead   string `json:"at_blocked_head"`
	Reserve         string `json:"reserve"`
	PrefixCaching   bool   `json:"prefix_caching"`
	ChunkedPrefill  bool   `json:"chunked_prefill"`
	ChunkTokens     int    `json:"chunk_tokens"`
	OverlapDepth    int    `json:"overlap_depth"`
	MaxPrompt       int    `json:"max_prompt_tokens"`
	MaxOutput       int    `json:"max_output_tokens"`
	MaxModel        int    `json:"max_model_tokens"`
	Charges
	Caps
}

// Charges must be those of the paper: 1 for a token of the prompt when it is picked, 2 for a token of output.
type Charges struct {
	Request    int            `json:"request_weight"`
	Input      int            `json:"input_weight"`
	Output     int            `json:"output_weight"`
	Product    int            `json:"product_weight"`
	Square     int            `json:"square_weight"`
	Prompt     string         `json:"charge_prompt"`
	Prediction bool           `json:"charge_prediction"`
	Prices     map[string]int `json:"prices"`
}

// Caps must be 0: there are none.
type Caps struct {
	AgingPicks       int `json:"aging_picks"`
	ClientSeats      int `json:"client_seats"`
	ClientResident   int `json:"client_resident_tokens"`
	ClientCommitted  int `json:"client_committed_cost"`
	Resident         int `json:"resident_tokens"`
	PrefillingAtOnce int `json:"prefilling_requests"`
	AdapterSlots     int `json:"adapter_slots"`
}

// refused names the first setting that is not honoured.
func (s settings) refused() string {
	honoured := []struct {
		name string
		ok   bool
	}{
		{"policy", s.Policy == "vtc"},
		{"at_blocked_head", s.AtBlockedHead == "break"},
		{"reserve", s.Reserve == "declared"},
		{"watermark_blocks", s.WatermarkBlocks == 0},
		{"prefix_caching", !s.PrefixCaching},
		{"chunked_prefill", s.ChunkedPrefill},
		{"chunk_tokens", s.ChunkTokens == 0},
		{"overlap_depth", s.OverlapDepth == 1},
		{"request_weight", s.Request == 0},
		{"input_weight", s.Input == 1},
		{"output_weight", s.Output == 2},
		{"product_weight", s.Product == 0},
		{"square_weight", s.Square == 0},
		{"charge_prompt", s.Prompt == "pick"},
		{"charge_prediction", !s.Prediction},
		{"prices", len(s.Prices) == 0},
		{"aging_picks", s.AgingPicks == 0},
		{"client_seats", s.ClientSeats == 0},
		{"client_resident_tokens", s.ClientResident == 0},
		{"client_committed_cost", s.ClientCommitted == 0},
		{"resident_tokens", s.Resident == 0},
		{"prefilling_requests", s.PrefillingAtOnce == 0},
		{"adapter_slots", s.AdapterSlots == 0},
	}
	for _, setting := range honoured {
		if !setting.ok {
			return setting.name
		}
	}
	return ""
}

type request struct {
	ID        string  `json:"id"`
	PromptIDs []int64 `json:"prompt_ids"`
	MaxOutput int     `json:"max_output_tokens"`
	Client    string  `json:"client"`
}

type job struct {
	id                    string
	client                *client
	prompt, output        int // as declared
	need                  int // blocks that are reserved at its admission
	known, issued, served int // positions known and scheduled; output tokens delivered
	blocks                []int
}

type delta []any

type scheduler struct {
	settings settings
	faults   faults
	prices   prices
	queue    *fairQueue
	live     map[string]*job
	seen     map[string]bool // an id is one request's for good
	running  []*job // in order of admission
	free     []int
	steps    int
	inFlight map[string]bool // who samples in the step that is under way
	flying   int             // its number, 0 for none
	computed map[string]int  // positions of the step under way, per request
}

func newScheduler(s settings, f faults, p prices) *scheduler {
	made := &scheduler{settings: s, faults: f, prices: p, queue: newFairQueue(f), live: map[string]*job{}, seen: map[string]bool{}}
	for block := s.Blocks - 1; block >= 0; block-- {
		made.free = append(made.free, block)
	}
	return made
}

func capabilities(tables bool) map[string]any {
	claims := []string{"vtc", "fair_share", "hard_budget", "hybrid", "break", "declared_reserve"}
	observes := "counters"
	if tables {
		observes = "tables"
	}
	return map[string]any{"name": "vtc", "version": "1", "observes": observes, "ordered": true, "claims": claims}
}

// submit refuses what a limit forbids or the pool can never hold; the last token is never written.
func (s *scheduler) submit(r request) map[string]any {
	if s.seen[r.ID] {
		return map[string]any{"verdict": "duplicate", "of": r.ID}
	}
	s.seen[r.ID] = true
	prompt, output := len(r.PromptIDs), r.MaxOutput
	need := (prompt + output - 1 + s.settings.BlockSize - 1) / s.settings.BlockSize
	limits := []struct {
		reason       string
		limit, value int
	}{
		{"prompt_tokens", s.settings.MaxPrompt, prompt},
		{"output_tokens", s.settings.MaxOutput, output},
		{"model_tokens", s.settings.MaxModel, prompt + output},
		{"kv_blocks", s.settings.Blocks, need},
	}
	for _, l := range limits {
		if l.value > l.limit {
			return map[string]any{"verdict": "refused", "reason": l.reason, "limit": l.limit, "value": l.value}
		}
	}
	j := &job{id: r.ID, prompt: prompt, output: output, need: need, known: prompt}
	s.live[j.id] = j
	s.queue.add(r.Client, j)
	return map[string]any{"verdict": "accepted"}
}

func (s *scheduler) cancel(id string) []delta {
	j := s.live[id]
	if j == nil {
		return []delta{}
	}
	if s.faults.chargeCancel {
		j.client.counter += s.prices.output * (j.output - j.served)
	}
	if j.blocks == nil {
		s.queue.remove(j)
	}
	return s.leaves(j, delta{"cancelled", id})
}

type plan struct {
	Step    int      `json:"step"`
	Request []string `json:"request"`
	Start   []int    `json:"start"`
	Tokens  []int    `json:"tokens"`
	Samples []int    `json:"samples"`
	Deltas  []delta  `json:"deltas"`
}

func (s *scheduler) step() *plan {
	s.steps++
	p := &plan{Step: s.steps, Request: []string{}, Start: []int{}, Tokens: []int{}, Samples: []int{}, Deltas: []delta{}}
	s.inFlight, s.computed = map[string]bool{}, map[string]int{}
	budget := s.settings.TokenBudget
	for _, j := range s.running {
		budget -= s.serve(p, j, budget)
	}
	for budget > 0 && len(s.running) < s.settings.Seats {
		j := s.queue.next(s.fits)
		if j == nil || !s.fits(j) {
			break
		}
		s.admit(p, j)
		budget -= s.serve(p, j, budget)
	}
	s.flying = 0
	if len(p.Request) > 0 {
		s.flying = s.steps
	}
	return p
}

func (s *scheduler) fits(j *job) bool { return j.need <= len(s.free) }

// admit reserves the whole life of a request, and charges its input.
func (s *scheduler) admit(p *plan, j *job) {
	left := len(s.free) - j.need
	j.blocks, s.free = slices.Clone(s.free[left:]), s.free[:left]
	s.queue.remove(j)
	s.running = append(s.running, j)
	j.client.counter += s.prices.input * j.prompt
	p.Deltas = append(p.Deltas, delta{"took", j.id, j.blocks}, delta{"admitted", j.id, 0})
}

// serve runs as many known positions of a request as the budget allows.
func (s *scheduler) serve(p *plan, j *job, budget int) int {
	tokens := min(j.known-j.issued, budget)
	if tokens == 0 {
		return 0
	}
	p.Request, p.Start, p.Tokens = append(p.Request, j.id), append(p.Start, j.issued), append(p.Tokens, tokens)
	j.issued += tokens
	samples := 0
	if j.issued == j.known {
		samples, s.inFlight[j.id] = 1, true
	}
	p.Samples = append(p.Samples, samples)
	s.computed[j.id] = tokens
	return tokens
}

type outcome struct {
	Step    int      `json:"step"`
	Request []string `json:"request"`
	Token   []int64  `json:"token"`
	Stop    []bool   `json:"stop"`
}

// complete delivers tokens, charges them to their clients, and ends who is done.
func (s *scheduler) complete(o outcome) []delta {
	deltas := []delta{}
	if o.Step != s.flying {
		return deltas // it came before
	}
	s.flying, s.inFlight, s.computed = 0, nil, nil
	ended := false
	for place, id := range o.Request {
		j := s.live[id]
		if j == nil {
			continue // it was cancelled meanwhile
		}
		j.known++
		j.served++
		s.charge(j, 1)
		deltas = append(deltas, delta{"delivered", []string{id}, []int64{o.Token[place]}})
		if reason := reasonToEnd(j, o.Stop[place]); reason != "" {
			ended = true
			s.chargeEnd(j)
			deltas = append(deltas, s.leaves(j, delta{"finished", id, reason})...)
		}
	}
	if ended && s.faults.chargeTwice {
		for _, j := range s.running {
			s.charge(j, 1)
		}
	}
	return deltas
}

func reasonToEnd(j *job, stop bool) string {
	switch {
	case stop:
		return "stop"
	case j.served == j.output:
		return "length"
	}
	return ""
}

func (s *scheduler) charge(j *job, tokens int) {
	if !s.faults.chargeAtEnd && !s.faults.noOutputCharge {
		j.client.counter += s.prices.output * tokens
	}
}

func (s *scheduler) chargeEnd(j *job) {
	if s.faults.chargeAtEnd {
		j.client.counter += s.prices.output * j.served
	}
}

// leaves frees all that a request holds.
func (s *scheduler) leaves(j *job, end delta) []delta {
	delete(s.live, j.id)
	if j.blocks == nil {
		return []delta{end}
	}
	s.free = append(s.free, j.blocks...)
	s.running = slices.DeleteFunc(s.running, func(other *job) bool { return other == j })
	return []delta{{"gave", j.id, j.blocks}, end}
}

func (s *scheduler) observe() map[string]any {
	requests, tables, counts := map[string]any{}, map[string][]int{}, map[int]int{}
	for id, j := range s.live {
		state, flying := "waiting", 0
		if j.blocks != nil {
			state, tables[id] = "running", j.blocks
		}
		for _, block := range j.blocks {
			counts[block] = 1
		}
		if s.inFlight[id] {
			flying = 1
		}
		requests[id] = map[string]any{"state": state, "issued": j.issued, "computed": j.issued - s.computed[id],
			"outputs": j.served, "in_flight": flying}
	}
	counters := map[string]int{"running": len(s.running), "waiting": s.queue.length(), "free_blocks": len(s.free),
		"used_blocks": s.settings.Blocks - len(s.free)}
	return map[string]any{"counters": counters, "requests": requests, "tables": tables, "free": s.free,
		"ref_counts": counts, "client_counters": s.queue.counters()}
}

// --- stdio: one question per line, one answer per line

type question struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params struct {
		Settings  settings `json:"settings"`
		Request   request  `json:"request"`
		RequestID string   `json:"request_id"`
		Outcome   outcome  `json:"outcome"`
	} `json:"params"`
}

type server struct {
	scheduler *scheduler
	faults    faults
	prices    prices
	tables    bool
}

func (v *server) answer(q question) map[string]any {
	if q.Method == "configure" {
		if name := q.Params.Settings.refused(); name != "" {
			return map[string]any{"error": map[string]string{"message": "not supported: " + name, "unsupported": name}}
		}
		v.scheduler = newScheduler(q.Params.Settings, v.faults, v.prices)
	}
	return map[string]any{"result": v.call(q)}
}

func (v *server) call(q question) any {
	switch q.Method {
	case "configure", "capabilities":
		return capabilities(v.tables)
	case "reset":
		v.scheduler = newScheduler(v.scheduler.settings, v.faults, v.prices)
		return nil
	case "submit":
		return v.scheduler.submit(q.Params.Request)
	case "cancel":
		return v.scheduler.cancel(q.Params.RequestID)
	case "step":
		return v.scheduler.step()
	case "complete":
		return v.scheduler.complete(q.Params.Outcome)
	case "observe":
		return v.scheduler.observe()
	}
	return []delta{} // notify: nothing of the world is of interest
}

func readFlags() (f faults, p prices, tables bool) {
	flag.BoolVar(&tables, "tables", false, "show blocks too, not only decisions")
	flag.IntVar(&p.input, "input-price", 1, "charge per input token")
	flag.IntVar(&p.output, "output-price", 2, "charge per output token")
	for _, planted := range []struct {
		to         *bool
		name, says string
	}{
		{&f.noLift, "no-lift", "nobody is lifted: a client that was idle comes back with credit and shuts out the others\n" +
			"until it is used up (the paper's baseline LCF)"},
		{&f.liftMissesEmptyQueue, "lift-misses-empty-queue", "no lift to the client that left last when nobody waits,\n" +
			"although the machine is busy: the same credit by another way (VTC-artifact,\n" +
			"slora/server/router/vtc_req_queue.py, append: if len(cnts) > 0)"},
		{&f.liftToMax, "lift-to-max", "lifted to the greatest counter of those who wait, not the least: who comes back is\n" +
			"served last"},
		{&f.liftAlways, "lift-always", "lifted at every arrival, also while requests of the client wait: it loses what it is\n" +
			"owed"},
		{&f.noOutputCharge, "no-output-charge", "output tokens are free: long answers get more than their share"},
		{&f.chargeAtEnd, "charge-at-end", "output tokens are charged when their request ends, not when they come: a client fills\n" +
			"the machine before its counter moves"},
		{&f.chargeTwice, "charge-twice", "when a request ends, all who run are charged that step a second time (VTC-artifact,\n" +
			"slora/server/router/manager.py, where the finish handler updates the counters too)"},
		{&f.chargeCancel, "count-on-cancel", "a cancelled request is charged the output that it declared and never got"},
		{&f.skipBlocked, "skip-blocked", "goes past the request of the least-served client when it does not fit: small requests of\n" +
			"others overtake it for ever"},
	} {
		flag.BoolVar(planted.to, planted.name, false, "fault: "+planted.says)
	}
	flag.IntVar(&f.modulo, "modulo", 0, "fault: ranks by the counter modulo `N`: a heavy client wraps around and looks light\n"+
		"(AIBrix, https://github.com/vllm-project/aibrix/pull/1011)")
	flag.Parse()
	return f, p, tables
}

func main() {
	log.SetFlags(0)
	f, p, tables := readFlags()
	if flag.NArg() > 0 {
		log.Fatalf("vtc: %q is no option; vtc -h lists them", flag.Arg(0))
	}
	v := &server{faults: f, prices: p, tables: tables}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // stdin has ended
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			log.Fatalf("vtc: cannot read a question: %v", err)
		}
		answer := v.answer(q)
		answer["id"] = q.ID
		encoded, err := json.Marshal(answer)
		if err != nil {
			log.Fatalf("vtc: cannot write an answer: %v", err)
		}
		fmt.Fprintf(out, "%s\n", encoded)
		out.Flush()
	}
}
