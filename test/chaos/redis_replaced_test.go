package chaos

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/internal/redistest/resp"
)

// second is what docs/promise.md states: how long before a change of primary
// what was answered may not have reached the replica that takes over.
const second = int64(time.Second / time.Microsecond)

// replacements are the changes of primary in a Sentinel's group, with the times
// whose changes may have been undone by each of them. What is stated for that
// holds where the servers get their share of the machine, and a test can't count
// on that, so two things are looked up and not taken for granted.
//
// The Sentinels take a primary for down when it has not answered for a second
// (down-after-milliseconds; the default is thirty). On a machine that is short of
// processors two of three Sentinels may see that of a primary that lives, and
// demote it: what it answers until it hears of that is lost, as after a demotion
// that the test has asked for, but in a window that the test has not opened. The
// Sentinels' logs tell when it was.
//
// A replica that gets no processor for more than a second is behind by more than
// that, whatever the engine does. So every server that takes writes is told the
// time, again and again, and what of that is found in the end is how far the one
// that took over had come. The stated second is asserted at ten times.
type replacements struct {
	group *redistest.Sentinel
	all   []replaced
	whole []int64 // when all agreed and followed

	mu   sync.Mutex
	told map[string][]beat // by server, in their order
}

// replaced is a server that the test wanted to be replaced.
type replaced struct {
	addr     string
	from, to int64 // when it was, or was to be; and when it could have been
	window   window
}

// beat is a moment that a server was told.
type beat struct {
	sent        int64
	ok, refused bool // it has answered that it has it, or that it is a replica
}

// watchReplacements begins to tell the servers the time.
func watchReplacements(t *testing.T, group *redistest.Sentinel) *replacements {
	x := &replacements{group: group, told: map[string][]beat{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, server := range group.Servers() {
		wg.Go(func() {
			for ctx.Err() == nil {
				x.tell(ctx, server)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return x
}

// tell tells a server the time. A replica refuses it, and one that was killed is
// not there.
func (x *replacements) tell(ctx context.Context, server *redistest.Server) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent := at()
	_, err := server.Do(ctx, "RPUSH", beats(server.Addr()), sent)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told[server.Addr()] = append(x.told[server.Addr()], beat{sent, err == nil, errors.As(err, new(resp.Error))})
}

// beats is the key of what a server was told while it was the primary.
func beats(addr string) string { return "beats:" + addr }

// asked notes that the test wanted a primary to be replaced from a moment on, and
// could have caused that until another; and the stated window.
func (x *replacements) asked(old *redistest.Server, from, to int64, w window) {
	x.all = append(x.all, replaced{old.Addr(), from, to, w})
}

// healthy waits until all Sentinels agree and all replicas follow, and tells when
// that was so.
func (x *replacements) healthy() int64 {
	x.group.AwaitHealthy()
	now := at()
	x.whole = append(x.whole, now)
	return now
}

// windows are the times whose changes may have been undone: the stated ones,
// each from where the server that took over had come to; and as many that nobody
// has asked for.
func (x *replacements) windows(t *testing.T) (undone []window, unasked int) {
	t.Helper()
	all := slices.Clone(x.all)
	for _, r := range x.group.Replacements() {
		began, done := r.At.UnixMicro(), r.Done.UnixMicro()
		if slices.ContainsFunc(x.all, func(p replaced) bool { return p.addr == r.Old && p.from <= began+1000 && began <= p.to }) { // logs tell ms
			continue
		}
		t.Logf("the Sentinels have replaced %s by themselves in %d…%d", r.Old, began, done)
		w := window{from: began - second, to: math.MaxInt64}
		if i := slices.IndexFunc(x.whole, func(at int64) bool { return at >= done }); i >= 0 {
			w.to = x.whole[i]
		}
		all = append(all, replaced{addr: r.Old, from: began, window: w})
		unasked++
	}
	kept := map[string]map[int64]bool{}
	var behind, asked int64
	for i, r := range all {
		if kept[r.addr] == nil {
			kept[r.addr] = x.kept(t, r.addr)
		}
		if from, lost := x.lostSince(r.addr, r.from, kept[r.addr]); lost {
			behind = max(behind, r.from-from)
			if i < len(x.all) {
				asked = max(asked, r.from-from)
			}
			r.window.from = min(r.window.from, from)
		}
		undone = append(undone, r.window)
	}
	t.Logf("%d primaries were replaced, %d of them unasked; who took over lacked what was answered up to %v before, and %v of those that were asked for",
		len(all), unasked, us(behind), us(asked))
	if asked > 10*second {
		t.Errorf("who took over lacked what was answered %v before", us(asked))
	}
	return undone, unasked
}

// lostSince is from when on a server's changes were lost, of those that it had
// made by a moment since it became the primary; false if none of those were.
func (x *replacements) lostSince(addr string, by int64, kept map[int64]bool) (from int64, lost bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := int64(0)
	for _, b := range x.told[addr] {
		switch {
		case b.sent > by:
			return from, lost
		case kept[b.sent] || b.refused:
			lost = false
		case b.ok && !lost:
			from, lost = before, true
		}
		before = b.sent
	}
	return from, lost
}

// kept are the moments that a server was told and that were not lost.
func (x *replacements) kept(t *testing.T, addr string) map[int64]bool {
	t.Helper()
	kept := map[int64]bool{}
	for _, n := range momentsIn(t, x.group.Primary(), beats(addr), 0) {
		kept[n] = true
	}
	return kept
}
