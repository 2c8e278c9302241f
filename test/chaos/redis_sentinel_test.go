package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
)

// TestSentinelClientsLeaveAServerThatIsNoPrimary demotes the primary of a
// Sentinel's group while it lives, and then lets one stand still until it was
// replaced: the clients go on at the next one by themselves, and what comes
// back as a primary for a moment is given nothing (F9).
//
// C9.5, C11.13
func TestSentinelClientsLeaveAServerThatIsNoPrimary(t *testing.T) {
	t.Parallel()
	group := redistest.NewSentinel(t)
	s := lightLoad()
	makeQueues(t, group.URL(), s.queues)
	x := &sentinelTrial{T: t, replacements: watchReplacements(t, group), f: setOut(t, group.URL(), 2, s)}
	r := x.f.random()
	for range counts(1, 20) {
		restUpTo(r, 300*time.Millisecond, time.Second)
		x.demote()
		if testing.Short() {
			continue
		}
		restUpTo(r, 300*time.Millisecond, time.Second)
		x.freeze()
	}
	x.f.rest()
	x.healthy()
	x.f.comeHome()
	report, err := x.f.engines[0].Check(t.Context(), contract.CheckParams{Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory()
	h.read(x.f.pages.lines())
	undone, unasked := x.windows(t)
	v := h.conclude(t, x.f.engines[0], trial{undone: undone, calm: x.f.calm, slack: slack}, s.queues...)
	stated := map[string][]window{"demoted": x.demotions, "standing still": x.freezes, "replaced unasked": undone[len(undone)-unasked:]}
	for what, windows := range stated {
		answered, lost := h.in(windows)
		t.Logf("%d primaries %s: %d pushes answered in the windows, %d of them lost", len(windows), what, answered, lost)
	}
	t.Logf("pushing again %v after a demotion, %v after a primary that stood still was replaced, at most; %d READONLY answers; %d pushes answered: "+
		"%d lost, %d delivered again after their ack; the repair mended %d faults",
		x.demoted.Round(time.Millisecond), x.frozen.Round(time.Millisecond), x.readonly, v.answered, v.lost, v.resurrected, len(report.Faults))
	if x.demoted > 20*time.Second || x.frozen > 20*time.Second { // ten times 2 s
		t.Errorf("no push was answered for %v after a demotion, for %v after a freeze", x.demoted, x.frozen)
	}
	if n := x.f.told("store reset"); n != 0 {
		t.Errorf("a reset was told of %d times", n)
	}
}

// sentinelTrial is a group of servers behind Sentinels that changes its primary
// under load.
type sentinelTrial struct {
	*testing.T
	*replacements
	f                  *fleet
	demotions, freezes []window
	demoted, frozen    time.Duration // how long after the change of primary no push was answered
	readonly           int
}

// demote makes another server the primary. The old one takes writes until the
// Sentinels have told it, and they are lost.
func (x *sentinelTrial) demote() {
	x.Helper()
	old := x.group.Primary()
	old.Must("FUNCTION", "FLUSH")
	began := at()
	redistest.Await(x, "the Sentinels take the order", func() bool {
		_, err := x.group.Sentinels()[0].Do(x.Context(), "SENTINEL", "FAILOVER", redistest.PrimaryName)
		return err == nil
	})
	redistest.Await(x, "another primary", func() bool { return x.group.Primary() != old })
	x.demoted = max(x.demoted, x.f.serves())
	ended := x.healthy()
	x.demotions = append(x.demotions, window{from: began - second, to: ended})
	x.asked(old, began, ended, x.demotions[len(x.demotions)-1])
	x.Logf("%s was demoted in %d…%d", old.Addr(), began, ended)
	x.readonly += errorsOf(old, "READONLY")
	x.f.serves()
}

// freeze lets the primary stand still until another one has taken its place,
// and then go on.
func (x *sentinelTrial) freeze() {
	x.Helper()
	old := x.group.Primary()
	began := at()
	old.Pause()
	x.freezes = append(x.freezes, window{from: began - second, to: at()})
	// A client whose Sentinel has not heard of the change may go back to the old
	// one, which is a primary as far as it knows.
	redistest.Await(x, "another primary, by the word of every Sentinel", func() bool {
		return !slices.ContainsFunc(x.group.Sentinels(), func(one *redistest.Server) bool {
			place, err := one.Do(x.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.PrimaryName)
			return err != nil || strings.HasSuffix(old.Addr(), ":"+fmt.Sprint(place.([]any)[1]))
		})
	})
	begun := time.Now()
	x.f.everybodyServes()
	x.frozen = max(x.frozen, time.Since(begun))
	continued := at()
	x.asked(old, began, continued, x.freezes[len(x.freezes)-1])
	old.Continue() // a primary, as far as it knows
	x.f.everybodyServes()
	x.healthy()
	x.Logf("%s stood still in %d…%d, and was told that it is no primary by %d", old.Addr(), began, continued, at())
	x.f.everybodyServes()
}

// everybodyServes pushes through each engine until it is answered.
func (f *fleet) everybodyServes() {
	f.t.Helper()
	for i := range f.engines {
		f.servesThrough(f.engines[i])
	}
}
