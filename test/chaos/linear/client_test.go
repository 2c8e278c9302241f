package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
)

// The load of one client process.
const (
	slice       = 400 * time.Millisecond
	callers     = 6  // callers per process
	callsInAll  = 14 // calls of one caller in one slice
	ids         = 8  // IDs of one slice
	pause       = slice / 8
	callTimeout = 5 * time.Second
)

// leases are the leases that a Reserve or an Extend asks for. Some are short enough to end within
// a slice.
var leases = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, time.Minute}

// client is a process that calls servers until it is killed.
type client struct {
	engines []duly.Engine
	start   time.Time

	mu    sync.Mutex
	calls int64
	slice int64
	held  []duly.Receipt // receipts of this slice, some of them stale
}

// runClient calls servers until it is killed. Its args are a seed, the time in ms at which slice
// 0 began, and the URLs of the servers.
func runClient(args []string) error {
	seed, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	start, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	c := &client{start: time.UnixMilli(start)}
	for _, url := range args[2:] {
		e, err := httpengine.Open(context.Background(), httpengine.Config{URL: url})
		if err != nil {
			return err
		}
		c.engines = append(c.engines, e)
	}

	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { c.run(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	all.Wait()
	return nil
}

// run makes a few calls in every slice and then waits for the next one.
func (c *client) run(r *rand.Rand) {
	for {
		n := int64(time.Since(c.start) / slice)
		for range callsInAll {
			if int64(time.Since(c.start)/slice) != n {
				break
			}
			c.call(r, n)
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.Int64N(int64(pause)))) // so that the slice lasts longer than a short lease
			}
		}
		time.Sleep(time.Until(c.start.Add(time.Duration(n+1) * slice)))
	}
}

// call makes one random call.
func (c *client) call(r *rand.Rand, n int64) {
	e := c.engines[r.IntN(len(c.engines))].(*httpengine.Engine)
	queue := fmt.Sprintf("s%d", n)
	id := "j" + strconv.Itoa(r.IntN(ids))
	receipt := c.receipt(r, n)
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	q := duly.Q(queue)

	lot := r.IntN(100)
	switch {
	case lot < 30 || lot >= 60 && receipt == "":
		c.do(call{Kind: "push", Queue: queue, ID: id}, func() (reply, error) { return push(ctx, e, q, id) })
	case lot < 34:
		c.do(call{Kind: "get", Queue: queue, ID: id}, func() (reply, error) { return get(ctx, e, q, id) })
	case lot < 38:
		c.do(call{Kind: "delete", Queue: queue, ID: id}, func() (reply, error) { return reply{}, e.Delete(ctx, q, id) })
	case lot < 44:
		c.do(call{Kind: "requeue", Queue: queue, ID: id}, func() (reply, error) { return requeue(ctx, e, q, id) })
	case lot < 60:
		c.do(call{Kind: "reserve", Queue: queue}, func() (reply, error) { return c.reserve(ctx, e, r, queue, n) })
	case lot < 66:
		lease := leases[r.IntN(len(leases))]
		what := call{Kind: "extend", Queue: queue, Receipt: receipt, Lease: lease.Milliseconds()}
		c.do(what, func() (reply, error) {
			errs, err := e.Extend(ctx, "", []duly.Receipt{receipt}, lease)
			return reply{}, errors.Join(err, errors.Join(errs...))
		})
	default:
		o := outcome(r, receipt)
		c.do(call{Kind: "settle", Queue: queue, Receipt: receipt, As: o.As.String()}, func() (reply, error) {
			errs, err := e.Settle(ctx, "", []duly.SettleRequest{o})
			return reply{}, errors.Join(err, errors.Join(errs...))
		})
	}
}

// receipt returns a receipt of this slice. It keeps every third one for later calls.
func (c *client) receipt(r *rand.Rand, n int64) duly.Receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slice != n {
		c.slice, c.held = n, nil
	}
	if len(c.held) == 0 {
		return ""
	}
	i := r.IntN(len(c.held))
	taken := c.held[i]
	if r.IntN(3) > 0 {
		c.held[i] = c.held[len(c.held)-1]
		c.held = c.held[:len(c.held)-1]
	}
	return taken
}

func (c *client) keep(n int64, ds []duly.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slice != n {
		return
	}
	for i := range ds {
		c.held = append(c.held, ds[i].Receipt)
	}
}

func outcome(r *rand.Rand, receipt duly.Receipt) duly.SettleRequest {
	o := duly.SettleRequest{Receipt: receipt}
	switch lot := r.IntN(100); {
	case lot < 30:
		o.As = duly.Ack
	case lot < 65:
		o.As, o.Delay = duly.Nack, new(time.Duration)
	case lot < 90:
		o.As = duly.Release
	default:
		o.As = duly.Bury
	}
	return o
}

// do writes a line before the call, and one with its reply unless the result is unknown.
func (c *client) do(what call, send func() (reply, error)) {
	c.mu.Lock()
	c.calls++
	what.N = c.calls
	c.mu.Unlock()
	what.At, what.Wall = monotonic(), time.Now().UnixMilli()
	write(callMark, what)

	a, err := send()
	a.To, a.At, a.Wall = what.N, monotonic(), time.Now().UnixMilli()
	switch {
	case err == nil && a.Verdict == "":
		a.Verdict = "ok"
	case err == nil:
	case isAnswer(err):
		a.Verdict = string(duly.CodeOf(err))
	case isUnsent(err):
		a.Verdict = unsent
	case isUnknown(err):
		time.Sleep(breath)
		return
	default:
		fmt.Println(faultMark + what.Kind + ": " + strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	write(replyMark, a)
	if a.Verdict == unsent {
		time.Sleep(breath)
	}
}

// breath is the pause after a call that reached no server.
const breath = 10 * time.Millisecond

// isAnswer reports whether an error is the result of an item.
func isAnswer(err error) bool {
	return errors.Is(err, duly.ErrLeaseLost) || errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrConflict)
}

// isUnsent reports whether a call reached no server.
func isUnsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isUnknown reports whether a call with this error may have been executed.
func isUnknown(err error) bool {
	return errors.Is(err, duly.ErrUnavailable) || errors.Is(err, duly.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded)
}

// write prints one line in one write, so that a kill never truncates an earlier line.
func write(mark string, what any) {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(mark + string(text) + "\n")
}

func push(ctx context.Context, e duly.Engine, q duly.QueueRef, id string) (reply, error) {
	results, err := e.Push(ctx, []duly.Job{{Queue: q.Name, ID: id, Tries: tries, MaxStalls: 65535}})
	if err != nil {
		return reply{}, err
	}
	return reply{Verdict: results[0].Status.String(), State: results[0].State}, results[0].Err
}

func get(ctx context.Context, e contract.Inspector, q duly.QueueRef, id string) (reply, error) {
	info, err := e.Get(ctx, q, id)
	return reply{State: info.State, Failures: info.Failures}, err
}

func requeue(ctx context.Context, e contract.Operator, q duly.QueueRef, id string) (reply, error) {
	results, err := e.Requeue(ctx, q, duly.RequeueParams{IDs: []string{id}})
	if err != nil {
		return reply{}, err
	}
	return reply{}, results[0].Err
}

func (c *client) reserve(ctx context.Context, e duly.Engine, r *rand.Rand, queue string, n int64) (reply, error) {
	p := duly.ReserveParams{Queues: []string{queue}, Max: 1 + r.IntN(2), Lease: leases[r.IntN(len(leases))]}
	ds, err := e.Reserve(ctx, p)
	var a reply
	for i := range ds {
		d := delivered{ID: ds[i].ID, Receipt: ds[i].Receipt, Failures: ds[i].Failures, LeaseEnd: ds[i].LeaseEnd.UnixMilli()}
		a.Delivered = append(a.Delivered, d)
	}
	c.keep(n, ds)
	return a, err
}
