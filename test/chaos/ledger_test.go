package chaos

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

const (
	ledgerKeys      = 50
	ledgerProcesses = 3
	ledgerSlots     = 4 // jobs in flight per process
	ledgerLease     = 500 * time.Millisecond
)

// ledgerSpan returns how long the faults continue: DULY_LEDGER, or 30 minutes with DULY_LONG.
func ledgerSpan(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("DULY_LEDGER"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if proctest.Long() {
		return 30 * time.Minute
	}
	return 3 * time.Second
}

// TestOrderLedgerOnSQLite kills and stops workers and lets leases expire. No key may have two
// valid receipts at the same time, and its jobs must not overtake each other. Times are those of
// the engine's clock.
//
// C6.7, C6.8, C6.15
func TestOrderLedgerOnSQLite(t *testing.T) {
	t.Parallel()
	engine, at := serveStore(t)
	(&ledger{t: t, engine: engine, at: at}).run()
}

// TestOrderLedgerOnRedis is like TestOrderLedgerOnSQLite, but on Redis, and also stops the server.
//
// C6.7, C6.8, C6.15
func TestOrderLedgerOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	engine, _ := openRedis(t, server.URL())
	(&ledger{t: t, engine: engine, at: server.URL(), redis: server}).run()
}

// ledger is one run: the pushed jobs and the deliveries that the workers have printed.
type ledger struct {
	t      *testing.T
	engine interface {
		duly.Engine
		contract.Inspector
	}
	at    string
	redis *redistest.Server // nil if the trial stops only workers

	random  *rand.Rand
	workers []*proctest.Process
	lines   []string
	pushed  int
	faults  map[string]int
}

func (l *ledger) run() {
	l.t.Helper()
	seed := uint64(time.Now().UnixNano())
	l.random, l.faults = rand.New(rand.NewPCG(seed, 0)), map[string]int{}
	for range ledgerProcesses {
		l.workers = append(l.workers, l.start())
	}

	for end := time.Now().Add(ledgerSpan(l.t)); time.Now().Before(end); {
		l.push()
		l.harm()
		time.Sleep(time.Duration(50+l.random.IntN(200)) * time.Millisecond)
	}
	l.drain()

	for _, p := range l.workers {
		p.Kill()
		l.lines = append(l.lines, p.Lines()...)
	}
	l.judge(seed)
}

func (l *ledger) start() *proctest.Process {
	return proctest.Start(l.t, proctest.Options{}, "ledgerworker", l.at, strconv.FormatUint(l.random.Uint64(), 10))
}

// push adds one job per key unless enough jobs wait. A repeated push finds the job still
// retained, so no number of a key is stored twice.
func (l *ledger) push() {
	l.t.Helper()
	stats, err := l.engine.Stats(l.t.Context(), theQueue)
	if err != nil {
		l.t.Fatal(err)
	}
	if stats.Sizes.Ready+stats.Sizes.Blocked > 10*ledgerKeys {
		return
	}
	batch := make([]duly.Job, ledgerKeys)
	for i := range batch {
		batch[i] = duly.Job{
			Queue: theQueue.Name, ID: fmt.Sprintf("%d:%d", i, l.pushed), OrderKey: strconv.Itoa(i), Lease: ledgerLease,
			Retain: 2 * time.Minute,
			Tries:  65535, MaxStalls: 65535, Body: fmt.Appendf(nil, "key-%d %d", i, l.pushed),
		}
	}
	for begun := time.Now(); ; {
		results, err := l.engine.Push(l.t.Context(), batch)
		if err == nil && !slices.ContainsFunc(results, func(r duly.PushResult) bool { return r.Err != nil }) {
			break
		}
		if time.Since(begun) > patience {
			l.t.Fatalf("push: %v, %v", results, err)
		}
	}
	l.pushed++
}

// harm causes a random fault: none, a killed worker, a worker stopped for longer than a lease, or
// a Redis stopped for about a lease.
func (l *ledger) harm() {
	i := l.random.IntN(len(l.workers))
	p := l.workers[i]
	pause := time.Duration(l.random.Int64N(int64(2 * ledgerLease)))
	switch l.random.IntN(8) {
	case 0:
		p.Kill()
		l.lines = append(l.lines, p.Lines()...)
		l.workers[i] = l.start()
		l.faults["kills"]++
	case 1:
		l.signal(p, syscall.SIGSTOP)
		time.Sleep(ledgerLease + pause)
		l.signal(p, syscall.SIGCONT)
		l.faults["stopped workers"]++
	case 2:
		if l.redis != nil {
			l.redis.Pause()
			time.Sleep(pause)
			l.redis.Continue()
			l.faults["stops of Redis"]++
		}
	}
}

func (l *ledger) signal(p *proctest.Process, s syscall.Signal) {
	l.t.Helper()
	if err := syscall.Kill(p.Pid(), s); err != nil {
		l.t.Fatal(err)
	}
}

// drain waits until every job is acknowledged.
func (l *ledger) drain() {
	l.t.Helper()
	want := int64(l.pushed * ledgerKeys)
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		stats, err := l.engine.Stats(l.t.Context(), theQueue)
		if err != nil {
			l.t.Fatal(err)
		}
		if stats.Counters.Acked == want {
			l.faults["taken back"] = int(stats.Counters.Stalled)
			return
		}
		if time.Since(begun) > patience {
			l.t.Fatalf("%d of %d jobs were acked: %+v", stats.Counters.Acked, want, stats)
		}
	}
}

// entered is one delivery in the ledger. The lease lasts from from until until, in ms of the
// engine's clock. settled is when the worker sent the outcome, or 0.
type entered struct {
	seq                  int
	receipt              string
	from, until, settled int64
	acks                 bool // the outcome was an ack that may have been executed
}

// delivery returns which delivery of the job this is, from 1.
func (e entered) delivery() uint64 {
	parts, _ := contract.ParseReceipt(duly.Receipt(e.receipt))
	return parts.Delivery
}

// judge checks that every job was delivered and acknowledged, in order.
func (l *ledger) judge(seed uint64) {
	l.t.Helper()
	byKey, deliveries := readLedger(l.t, l.lines)
	for key, all := range byKey {
		if last := slices.MaxFunc(all, func(a, b entered) int { return cmp.Compare(a.seq, b.seq) }).seq; last != l.pushed-1 {
			l.t.Errorf("%s ended at job %d of %d", key, last, l.pushed)
		}
	}

	overlaps, inversions, first := compareLedger(byKey)
	l.t.Logf("seed %d: %d jobs, %d deliveries, %v, %d overlaps, %d inversions",
		seed, l.pushed*ledgerKeys, deliveries, l.faults, overlaps, inversions)
	if len(byKey) != ledgerKeys || overlaps > 0 || inversions > 0 {
		l.t.Errorf("%d keys, %d overlaps, %d inversions; the first: %s", len(byKey), overlaps, inversions, first)
	}
}

// compareLedger compares the deliveries of each key in the order in which the engine made them.
func compareLedger(byKey map[string][]entered) (overlaps, inversions int, first string) {
	note := func(n *int, key string, a, b entered) {
		if *n++; first == "" {
			first = fmt.Sprintf("%s: %+v, then %+v", key, a, b)
		}
	}
	for key, all := range byKey {
		// A delivery can begin and end within a millisecond.
		slices.SortFunc(all, func(a, b entered) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.seq, b.seq), cmp.Compare(a.delivery(), b.delivery()))
		})
		acked := map[int]bool{all[0].seq: all[0].acks}
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if ended := a.settled != 0 && a.settled <= b.from || a.until <= b.from; !ended {
				note(&overlaps, key, a, b)
			}
			// Only the next job of the key may follow, and only after the ack of the previous job
			// was sent.
			if b.seq < a.seq || b.seq > a.seq+1 || b.seq > a.seq && !acked[a.seq] {
				note(&inversions, key, a, b)
			}
			acked[b.seq] = acked[b.seq] || b.acks
		}
	}
	return overlaps, inversions, first
}

// TestOrderLedgerFindsPlantedFaults checks that the comparison finds the faults that it has to
// find.
func TestOrderLedgerFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	nth := func(delivery uint64) string {
		return string(contract.ReceiptParts{Queue: "load", Delivery: delivery}.Receipt())
	}
	for name, c := range map[string]struct {
		lines                []string
		overlaps, inversions int
	}{
		"InOrder": {[]string{"D k 0 a 10 20", "F a ack 12", "D k 1 b 12 22"}, 0, 0},
		"AgainInTheSameMillisecond": {[]string{"D k 0 " + nth(3) + " 10 20", "F " + nth(3) + " ack 14",
			"D k 0 " + nth(2) + " 10 20", "F " + nth(2) + " nack 10"}, 0, 0},
		"AgainAfterAStall":   {[]string{"D k 0 a 10 20", "D k 0 b 20 30", "F b ack 21", "D k 1 c 22 32"}, 0, 0},
		"TwoOverlap":         {[]string{"D k 0 a 10 20", "D k 0 b 19 29"}, 1, 0},
		"MovedPastAStall":    {[]string{"D k 0 a 10 20", "D k 1 b 20 30"}, 0, 1},
		"MovedPastANack":     {[]string{"D k 0 a 10 20", "F a nack 12", "D k 1 b 13 30"}, 0, 1},
		"MovedPastALostAck":  {[]string{"D k 0 a 10 20", "F a ack 25", "S a lease_lost", "D k 1 b 30 40"}, 0, 1},
		"BackToAnEarlierJob": {[]string{"D k 1 a 10 20", "F a ack 12", "D k 0 b 13 23"}, 0, 1},
		"OneLeftOut":         {[]string{"D k 0 a 10 20", "F a ack 12", "D k 2 b 13 23"}, 0, 1},
	} {
		byKey, _ := readLedger(t, c.lines)
		if overlaps, inversions, _ := compareLedger(byKey); overlaps != c.overlaps || inversions != c.inversions {
			t.Errorf("%s: %d overlaps, %d inversions, want %d and %d", name, overlaps, inversions, c.overlaps, c.inversions)
		}
	}
}

func readLedger(t *testing.T, lines []string) (byKey map[string][]entered, deliveries int) {
	t.Helper()
	byKey = map[string][]entered{}
	settled, acks, lost := map[string]int64{}, map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		var key, receipt, word string
		var e entered
		var at int64
		if n, _ := fmt.Sscanf(line, "D %s %d %s %d %d", &key, &e.seq, &e.receipt, &e.from, &e.until); n == 5 {
			byKey[key] = append(byKey[key], e)
			deliveries++
		} else if n, _ := fmt.Sscanf(line, "F %s %s %d", &receipt, &word, &at); n == 3 {
			settled[receipt], acks[receipt] = at, word == "ack"
		} else if n, _ := fmt.Sscanf(line, "S %s %s", &receipt, &word); n == 2 {
			lost[receipt] = word == string(duly.CodeLeaseLost)
		} else {
			t.Fatalf("a worker printed the unknown line %q", line)
		}
	}
	for _, all := range byKey {
		for i := range all {
			r := all[i].receipt
			all[i].settled, all[i].acks = settled[r], acks[r] && !lost[r]
		}
	}
	return byKey, deliveries
}

// runLedgerWorker handles jobs until it is killed. Its args are the engine's URL and a seed. It
// prints D for a delivery, F before it sends the outcome, and S for the result. It never settles
// some deliveries, so that their leases expire.
func runLedgerWorker(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	engine, err := open.Engine(context.Background(), args[0], open.Log(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	out := &diary{out: os.Stdout}
	for i := range ledgerSlots {
		go ledgerLoop(engine, out, rand.New(rand.NewPCG(seed, uint64(i))))
	}
	select {}
}

func ledgerLoop(engine duly.Engine, out *diary, r *rand.Rand) {
	ctx, queues := context.Background(), []string{theQueue.Name}
	for {
		ds, err := engine.Reserve(ctx, duly.ReserveParams{Queues: queues, Max: 1 + r.IntN(4)})
		if err != nil || len(ds) == 0 {
			_, _ = engine.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: time.Second})
			continue
		}
		for i := range ds {
			d := &ds[i]
			out.say("D %s %s %d %d", d.Body, d.Receipt, d.Now.UnixMilli(), d.LeaseEnd.UnixMilli())
		}
		for i := range ds {
			settleByLot(ctx, engine, out, r, ds[i].Receipt)
		}
	}
}

func settleByLot(ctx context.Context, engine duly.Engine, out *diary, r *rand.Rand, receipt duly.Receipt) {
	time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
	o := duly.SettleRequest{Receipt: receipt, As: duly.Ack}
	delay := time.Duration(r.IntN(30)) * time.Millisecond
	switch r.IntN(50) {
	case 0:
		return // never settled, so the lease expires
	case 1, 2:
		o.As, o.Delay = duly.Nack, &delay
	case 3:
		o.As = duly.Release
	}
	out.say("F %s %s %d", receipt, o.As, time.Now().UnixMilli())
	errs, err := engine.Settle(ctx, "", []duly.SettleRequest{o})
	if err == nil {
		out.say("S %s %s", receipt, verdict(errs[0]))
	}
}
