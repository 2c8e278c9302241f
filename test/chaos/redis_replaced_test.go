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

// second is the bound of docs/promise.md: changes that were answered up to a second before a
// change of primary may not have reached the replica that takes over.
const second = int64(time.Second / time.Microsecond)

// replacements are the changes of primary in a Sentinel's group, with the windows in which
// changes may have been undone. The documented windows apply to servers that get their share of
// the machine. A test can't rely on that, so it measures two things.
//
// First, Sentinels regard a primary as down if it does not answer for a second
// (down-after-milliseconds, by default thirty). On a busy machine two of three Sentinels may do
// so with a primary that runs, and demote it. What it answers until it knows is lost, as after a
// demotion by the test, but at another time. The Sentinels' logs say when.
//
// Second, a replica that gets no processor for more than a second is behind by more than a
// second, whatever the engine does. So the test writes the time to every server all the time. The
// last time that is found afterwards shows how far the new primary had come. The documented
// second is checked with a factor of ten.
type replacements struct {
	group *redistest.Sentinel
	all   []replaced
	whole []int64 // when all Sentinels agreed and all replicas followed

	mu    sync.Mutex
	beats map[string][]beat // beats by server, oldest first
}

// replaced is a server that the test has replaced.
type replaced struct {
	addr     string
	from, to int64 // when the replacement was requested, and when it could have happened at the latest
	window   window
}

// beat is a time that was written to a server.
type beat struct {
	sent        int64
	ok, refused bool // the server has confirmed the write, or refused it as a replica
}

// watchReplacements starts to write the time to the servers.
func watchReplacements(t *testing.T, group *redistest.Sentinel) *replacements {
	x := &replacements{group: group, beats: map[string][]beat{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, server := range group.Servers() {
		wg.Go(func() {
			for ctx.Err() == nil {
				x.write(ctx, server)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
	return x
}

// write writes the time to a server. It fails on a replica and on a killed server.
func (x *replacements) write(ctx context.Context, server *redistest.Server) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent := at()
	_, err := server.Do(ctx, "RPUSH", beatsKey(server.Addr()), sent)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.beats[server.Addr()] = append(x.beats[server.Addr()], beat{sent, err == nil, errors.As(err, new(resp.Error))})
}

// beatsKey returns the key of the times that were written to a server while it was the primary.
func beatsKey(addr string) string { return "beats:" + addr }

// asked notes that the test requested the replacement of a primary, the time range in which that
// could have happened, and the documented window.
func (x *replacements) asked(old *redistest.Server, from, to int64, w window) {
	x.all = append(x.all, replaced{old.Addr(), from, to, w})
}

// healthy waits until all Sentinels agree and all replicas follow, and returns the time.
func (x *replacements) healthy() int64 {
	x.group.AwaitHealthy()
	now := at()
	x.whole = append(x.whole, now)
	return now
}

// windows returns the time ranges whose changes may have been undone. The documented ones begin
// at the last time that the new primary had. The others, whose number is unasked, belong to
// replacements that the test has not requested.
func (x *replacements) windows(t *testing.T) (undone []window, unasked int) {
	t.Helper()
	all := slices.Clone(x.all)
	for _, r := range x.group.Replacements() {
		began, done := r.At.UnixMicro(), r.Done.UnixMicro()
		// The logs have milliseconds.
		if slices.ContainsFunc(x.all, func(p replaced) bool {
			return p.addr == r.Old && p.from <= began+1000 &&
				began <= p.to
		}) {
			continue
		}
		t.Logf("the Sentinels replaced %s without a request in %d…%d", r.Old, began, done)
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
	t.Logf("%d primaries were replaced, %d of them unasked; the new primary lacked what was answered up to %v "+
		"before, and %v after requested replacements",
		len(all), unasked, us(behind), us(asked))
	if asked > 10*second {
		t.Errorf("the new primary lacked what was answered %v before", us(asked))
	}
	return undone, unasked
}

// lostSince returns since when changes on a server were lost, of those from its time as primary
// until by. It returns false if none were lost.
func (x *replacements) lostSince(addr string, by int64, kept map[int64]bool) (from int64, lost bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := int64(0)
	for _, b := range x.beats[addr] {
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

// kept returns the times that were written to a server and not lost.
func (x *replacements) kept(t *testing.T, addr string) map[int64]bool {
	t.Helper()
	kept := map[int64]bool{}
	for _, n := range momentsIn(t, x.group.Primary(), beatsKey(addr), 0) {
		kept[n] = true
	}
	return kept
}
