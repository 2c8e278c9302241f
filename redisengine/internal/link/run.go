package link

import (
	"context"
	"log/slog"
	"sync"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/clock"
)

// Result is the answer to one of several calls.
type Result struct {
	Msg rueidis.RedisMessage
	Err error // an error of the contract, or nil
}

// Run runs a script and returns its reply, which may be nil. Its errors are those of the
// contract. After [duly.ErrUnavailable] the script may have run, unless the message says that
// nothing was done.
func (l *core) Run(ctx context.Context, c Call) (rueidis.RedisMessage, error) {
	c = l.sent(c)
	again := l.request(c)
	// Batched calls have no deadline, so this is the most frequent case.
	if ctx.Done() == nil {
		j := l.runOnce(ctx, c, again)
		if !j.retry {
			return j.result.Msg, l.explain(ctx, j.result.Err, c.Keys)
		}
	}
	r := l.send(ctx, []*request{again})[0]
	return r.Msg, r.Err
}

// runOnce makes the first try, which nearly always succeeds, at less cost than send. The caller's
// context never ends, so no goroutine has to watch it.
func (l *core) runOnce(ctx context.Context, c Call, r *request) outcome {
	if err := l.enter(ctx); err != nil {
		return outcome{result: Result{Err: err}}
	}
	defer l.calls.Done()
	if l.o.Observe != nil {
		begin := clock.Monotonic()
		defer func() { l.o.Observe(r.name, clock.Monotonic()-begin) }()
	}
	return l.assess(r, l.main.Do(ctx, c.command(l.main.B(), l.form(c.Script))))
}

// sent returns the call with the script that replaces its own.
func (l *core) sent(c Call) Call {
	if l.o.Sent != nil {
		c.Script = l.o.Sent(c.Script)
	}
	return c
}

// RunAll runs calls that do not depend on each other, in any order, with one round trip per node.
// The results are in the order of the calls.
func (l *core) RunAll(ctx context.Context, calls []Call) []Result {
	requests := make([]*request, len(calls))
	for i, c := range calls {
		requests[i] = l.request(l.sent(c))
	}
	if !isHasty(ctx) {
		return l.send(ctx, requests)
	}
	results := make([]Result, len(calls))
	var all sync.WaitGroup
	// No call waits for the node of another call.
	for i := range requests {
		all.Go(func() { results[i] = l.send(ctx, requests[i:i+1])[0] })
	}
	all.Wait()
	return results
}

// Do sends a plain command from [Link.B]. A command that only reads is retried even if its answer
// was lost.
func (l *core) Do(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	r := l.DoAll(ctx, cmd)[0]
	return r.Msg, r.Err
}

// DoAll sends several plain commands, as RunAll runs several scripts.
func (l *core) DoAll(ctx context.Context, cmds ...rueidis.Completed) []Result {
	requests := make([]*request, len(cmds))
	for i, cmd := range cmds {
		words := cmd.Commands()
		requests[i] = &request{
			name:  words[0],
			keys:  words[1:min(2, len(words))],
			reads: cmd.IsReadOnly(),
			// Pin keeps the command for a retry; the client library would reuse its memory.
			build: func(_ rueidis.Builder, cmds []rueidis.Completed) []rueidis.Completed { return append(cmds, cmd.Pin()) },
		}
	}
	return l.send(ctx, requests)
}

// request is a call that may be sent repeatedly.
type request struct {
	name  string
	keys  []string
	reads bool
	once  bool // the value of Call.Once
	// build appends the commands of one try. The reply to the last of these commands is the answer.
	build  func(rueidis.Builder, []rueidis.Completed) []rueidis.Completed
	byText bool // whether the server has answered that it does not know the script
}

// request returns the request of a call. If the server does not know the function, the next try
// loads the library for later calls and runs by EVAL. It therefore runs even if the server's
// memory is full, when the server loads no library.
func (l *core) request(c Call) *request {
	r := &request{name: c.Script.Name, keys: c.Keys, reads: c.Script.ReadOnly, once: c.Once}
	r.build = func(b rueidis.Builder, cmds []rueidis.Completed) []rueidis.Completed {
		f := l.form(c.Script)
		if !r.byText {
			return append(cmds, c.command(b, f))
		}
		if f == byFunction {
			load := c.Script.Library.load(b)
			if len(c.Keys) > 0 {
				// Each primary has its own libraries, so the load goes to the node of the call.
				load = load.SetSlot(c.Keys[0])
			}
			cmds = append(cmds, load)
		}
		return append(cmds, c.command(b, byText))
	}
	return r
}

// send sends the requests until each is answered, is refused, or may have run without an answer.
func (l *core) send(ctx context.Context, requests []*request) []Result {
	results := make([]Result, len(requests))
	open := make([]int, len(requests)) // indexes of the requests that must still be sent
	for i := range open {
		open[i] = i
	}

	p := l.Backoff(ctx)
	// If the caller left, the errors of unfinished requests also say that.
	defer func() {
		for _, i := range open {
			results[i].Err = left(ctx, results[i].Err)
		}
	}()

	for first := true; len(open) > 0; first = false {
		replies, err := l.exchange(ctx, requests, open)
		if err != nil && err == ctx.Err() {
			if !first {
				// The time for retries is over, and the results say why nothing was done.
				break
			}
			// An earlier call may be part of the same operation, and may have run.
			err = unanswered(ctx)
		}
		if err != nil {
			for _, i := range open {
				results[i].Err = err
			}
			return results
		}

		var again []int
		pause := false
		for k, i := range open {
			v := l.assess(requests[i], replies[k])
			results[i] = v.result
			if v.result.Err != nil {
				results[i].Err = l.explain(ctx, v.result.Err, requests[i].keys)
			}
			if v.retry {
				again = append(again, i)
				pause = pause || !v.atOnce
			}
		}

		open = again
		if len(open) > 0 && pause && !p.Wait() {
			break
		}
	}

	return results
}

// outcome is the meaning of one reply.
type outcome struct {
	result Result
	retry  bool // whether the request must be sent again; result is used if there is no time left for that
	atOnce bool // whether to retry without a pause
}

// assess decides what a reply means for its request.
func (l *core) assess(r *request, reply rueidis.RedisResult) outcome {
	msg, err := reply.ToMessage()
	if err == nil || rueidis.IsRedisNil(err) {
		return outcome{result: Result{Msg: msg}}
	}

	v := verdictOf(err)
	// A script that only reads can't be half done.
	v.midScript = v.midScript && !r.reads
	j := outcome{result: Result{Err: l.refusal(r.name, v, err)}}
	switch v.class {
	case noScript:
		j.retry, j.atOnce = !r.byText, true
		r.byText = true
	case idle:
		j.retry = !r.once
	// A call that may have run is repeated only if it reads.
	case unknown:
		j.retry = r.reads && !r.once && !l.closed.Load()
	}

	if v.refresh {
		l.refresh()
	}

	return j
}

// exchange sends the open requests once. It returns an error if the caller has left or the link
// is closed. Everything else is in the replies.
func (l *core) exchange(ctx context.Context, requests []*request, open []int) ([]rueidis.RedisResult, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	if ctx.Done() == nil {
		defer l.calls.Done()
		return l.roundTrip(ctx, requests, open), nil
	}

	done := make(chan []rueidis.RedisResult, 1)
	// Sent calls can't be recalled, so they continue after the caller has left.
	go func() {
		defer l.calls.Done()
		done <- l.roundTrip(context.WithoutCancel(ctx), requests, open)
	}()

	stays := ctx
	if isHasty(ctx) {
		short, cancel := context.WithTimeout(ctx, hurryTimeout)
		defer cancel()
		stays = short
	}

	select {
	case replies := <-done:
		return replies, nil
	case <-stays.Done():
		return nil, unanswered(stays)
	}
}

// roundTrip sends the open requests in one pipeline. It returns one reply for each.
func (l *core) roundTrip(ctx context.Context, requests []*request, open []int) []rueidis.RedisResult {
	if l.o.Observe != nil {
		begin := clock.Monotonic()
		defer func() {
			took := clock.Monotonic() - begin
			for _, i := range open {
				l.o.Observe(requests[i].name, took)
			}
		}()
	}
	b := l.main.B()
	cmds, last := make([]rueidis.Completed, 0, len(open)), make([]int, len(open))
	for k, i := range open {
		cmds = requests[i].build(b, cmds)
		// A request may have several commands, and the last reply is its answer.
		last[k] = len(cmds) - 1
	}
	// One command needs no pipeline.
	if len(cmds) == 1 {
		return []rueidis.RedisResult{l.main.Do(ctx, cmds[0])}
	}

	all := l.main.DoMulti(ctx, cmds...)
	if len(all) == len(open) {
		return all
	}
	replies := make([]rueidis.RedisResult, len(open))
	first := 0
	for k, at := range last {
		// FUNCTION LOAD was sent before the call.
		if at > first {
			l.noteLoad(all[first])
		}
		replies[k], first = all[at], at+1
	}
	return replies
}

// noteLoad handles the reply to the FUNCTION LOAD that precedes a call whose function is missing.
// The call runs by EVAL in any case, so a refusal is only logged. The same refusal is logged again
// only after a library was loaded.
func (l *core) noteLoad(reply rueidis.RedisResult) {
	err := reply.Error()
	if err == nil || isLoaded(err) && !areNamesTaken(err) {
		l.unloaded.Store(nil)
		return
	}
	if _, said := rueidis.IsRedisErr(err); !said || verdictOf(err).class == idle {
		// The call reports the same error.
		return
	}

	text := err.Error()
	if last := l.unloaded.Swap(&text); last == nil || *last != text {
		l.log.Warn("redis: the server refuses to load functions, so every call sends its script by EVAL, which costs "+
			"the server more time",
			slog.String("setting", "scripts"), slog.String("server", l.where()), slog.String("error", text))
	}
}
