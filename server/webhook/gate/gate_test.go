package gate

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/webhook/outcome"
)

func after(d time.Duration) *time.Duration { return &d }

// rig has gates with a fake clock.
type rig struct {
	t       *testing.T
	clock   *clock.Fake
	gates   *Gates
	changes []Change
}

func newRig(t *testing.T, cfg Config) *rig {
	r := &rig{t: t, clock: clock.NewFake()}
	cfg.Clock, cfg.Changed = r.clock, func(c Change) { r.changes = append(r.changes, c) }
	r.gates = New(cfg)
	return r
}

// pass returns the permit of a job that comes back, which must be admitted.
func (r *rig) pass(host string) *Permit {
	r.t.Helper()
	p, wait := r.gates.Admit(host, Bounds{}, true)
	if p == nil {
		r.t.Fatalf("%s admits nothing for %s, want a pass: %+v", host, wait, r.gates.States())
	}
	return p
}

// held returns the wait of a job, which must be held back.
func (r *rig) held(host string) time.Duration {
	r.t.Helper()
	p, wait := r.gates.Admit(host, Bounds{}, false)
	if p != nil {
		r.t.Fatalf("%s admits a try, want none: %+v", host, r.gates.States())
	}
	return wait
}

// try makes one try that takes the time d.
func (r *rig) try(host string, d time.Duration, result Result) {
	r.t.Helper()
	p := r.pass(host)
	r.clock.Advance(d)
	p.Done(result)
}

func (r *rig) state(host string) State {
	for _, s := range r.gates.States() {
		if s.Host == host {
			return s
		}
	}
	return State{}
}

// close closes the gate by five bad tries in a row.
func (r *rig) close(host string) {
	r.t.Helper()
	for range badInARow {
		r.try(host, ms, bad)
	}
	if r.state(host).Open {
		r.t.Fatalf("the gate is open after %d bad tries", badInARow)
	}
}

// C16.88: the limit is 4 at first, and bounds the tries. C16.94: a new host is open.
func TestLimitBoundsTheTries(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	var passes []*Permit
	for range StartLimit {
		passes = append(passes, r.pass("h"))
	}
	if wait := r.held("h"); wait < MinHold {
		t.Errorf("the fifth job is held for %s, want %s at least", wait, MinHold)
	}
	r.pass("other")
	passes[0].Done(good)
	passes[0].Done(good) // a second call to Done is ignored
	if s := r.state("h"); s.InFlight != 3 || s.Limit != 4 || !s.Open {
		t.Errorf("%+v, want 3 tries in flight", s)
	}
}

// C16.84, C16.91: the concurrency and the rate of the target bound the host.
func TestTargetSettingsBoundTheHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	b := Bounds{Concurrency: 2, Rate: duly.Rate{PerSecond: 10, Burst: 1}}
	enter := func() *Permit {
		p, _ := r.gates.Admit("h", b, true)
		return p
	}
	sent := 0
	for range 1000 {
		if p := enter(); p != nil {
			sent++
			p.Done(good)
		}
		r.clock.Advance(10 * ms)
	}
	if sent < 99 || sent > 101 {
		t.Errorf("%d tries in 10 s at 10/s", sent)
	}

	b.Rate = duly.Rate{}
	if enter() == nil || enter() == nil || enter() != nil {
		t.Error("a concurrency of 2 does not mean two tries")
	}
}

// C16.86: a host gets a quarter of the slots. C16.87: it gets a half while a quarter
// stays free.
func TestHostGetsAQuarterOrHalfOfTheSlots(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Slots: 40})
	b := Bounds{Concurrency: 1000}

	grow := func(host string) {
		for range 2000 {
			p, _ := r.gates.Admit(host, b, true)
			p.Done(good)
		}
	}

	fill := func(host string) (n int) {
		for {
			if p, _ := r.gates.Admit(host, b, true); p == nil {
				return n
			}
			n++
		}
	}

	for _, host := range []string{"a", "b", "c", "d"} {
		grow(host)
	}
	for _, tt := range []struct {
		host string
		want int
	}{{"a", 20}, {"b", 10}, {"c", 10}, {"d", 0}} {
		if n := fill(tt.host); n != tt.want {
			t.Errorf("%s gets %d of 40 slots, want %d", tt.host, n, tt.want)
		}
	}
}

// C16.95: bad tries close an open gate, if there are enough of them.
func TestBadTriesCloseAGate(t *testing.T) {
	t.Parallel()
	// Each letter is a try of 100 ms: g is good, b is bad, u is aborted. A dot is a second
	// without a try.
	tests := map[string]struct {
		tries  string
		closed bool
	}{
		"five bad":                               {"bbbbb", true},
		"four bad":                               {"bbbb", false},
		"five bad after a good one":              {"gbbbbb", true},
		"a good one between":                     {"bbbgbbbb", false},
		"no verdict is not a good answer":        {"bbubbub", true},
		"no verdict alone":                       {"uuuuuuuuuu", false},
		"five bad over a long time":              {"b..........b..........b..........b..........b", true},
		"nine of ten":                            {"bbbbgbbbbb", true},
		"eight of ten":                           {"bbbbgbbbbg", false},
		"nine of ten, too long ago":              {"bbbbg............bbbb", false},
		"half of many":                           {"bgbgbgbgbgbgbgbgbgbgbgbgbgbgbgbgbgbgbgbgbg", false},
		"nine of ten, of which five in a row, 2": {"bbbbgbbbb", false},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{})
			for i, c := range tt.tries {
				if c == '.' {
					r.clock.Advance(time.Second)
					continue
				}
				if !r.state("h").Open && i > 0 {
					t.Fatalf("the gate is closed after %q", tt.tries[:i])
				}
				r.try("h", 100*ms, map[rune]Result{'g': good, 'b': bad, 'u': {}}[c])
			}
			if s := r.state("h"); s.Open == tt.closed {
				t.Errorf("after %q the gate is %+v, want closed: %v", tt.tries, s, tt.closed)
			}
		})
	}
}

// C16.95: of concurrent tries, the bad ones that began before the last good answer do not
// close the gate.
func TestBadTriesBeforeTheLastGoodAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for range 10 {
		r.try("h", ms, good)
	}
	var old []*Permit

	for range 5 {
		old = append(old, r.pass("h"))
	}
	r.clock.Advance(20 * time.Second)
	r.try("h", ms, good)
	for _, p := range old {
		r.clock.Advance(2 * time.Second)
		p.Done(bad)
	}
	if !r.state("h").Open {
		t.Error("five tries of before the last good answer close the gate")
	}
}

// C16.95: nine of ten tries that ended within ten seconds close the gate, even if they began before
// the last good answer. Older tries don't count.
func TestNineBadTriesOfTenCloseTheGate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		goods  int
		pause  time.Duration // time after the fifth bad try
		closed bool
	}{
		"nine of ten":                     {1, 0, true},
		"nine of ten within nine":         {1, 9 * time.Second, true},
		"nine of eleven":                  {2, 0, false},
		"half of them too long ago":       {1, 11 * time.Second, false},
		"half of them a round ago":        {1, 20 * time.Second, false},
		"half of them several rounds ago": {1, 35 * time.Second, false},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{})
			for r.state("h").Limit < 11 {
				r.try("h", ms, good)
			}
			r.clock.Advance(time.Minute)
			var passes []*Permit
			for range 9 + tt.goods {
				passes = append(passes, r.pass("h"))
			}
			r.clock.Advance(time.Second)
			for i, p := range passes {
				switch {
				case i < tt.goods:
					p.Done(good)
				case !r.state("h").Open:
					t.Fatalf("the gate is closed before the try %d", i+1)
				default:
					p.Done(bad)
				}
				if i == tt.goods+4 {
					r.clock.Advance(tt.pause)
				}
			}
			if s := r.state("h"); s.Open == tt.closed {
				t.Errorf("%+v, want closed: %v", s, tt.closed)
			}
		})
	}
}

// C16.97, C16.98: after a closure one probe is sent, and its answer decides. C16.92: after the gate
// has opened again, the limit is 1. C16.99: closures last 5 s, then twice as long up to 5 min.
func TestProbeDecidesAfterAClosure(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.close("h")
	for length := FirstClosure; ; length = min(2*length, LongestClosure) {
		if got := r.changes[len(r.changes)-1]; got.Open || got.For != length || got.Host != "h" {
			t.Fatalf("the closure is %+v, want %s", got, length)
		}
		r.clock.Advance(length - time.Nanosecond)
		r.held("h")
		r.clock.Advance(time.Nanosecond)
		probe := r.pass("h")
		r.held("h")
		if length == LongestClosure && len(r.changes) > 9 {
			probe.Done(good)
			break
		}
		probe.Done(bad)
	}
	if s := r.state("h"); !s.Open || s.Limit != 1 || !r.changes[len(r.changes)-1].Open {
		t.Fatalf("after a good probe %+v, want open with a limit of 1", s)
	}

	// The next closure is short again.
	r.close("h")
	if got := r.changes[len(r.changes)-1].For; got != FirstClosure {
		t.Errorf("the closure after a good probe lasts %s, want %s", got, FirstClosure)
	}
}

// After an aborted probe, the next job is the probe.
func TestNextJobIsTheProbeAfterAnAbort(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.close("h")
	r.clock.Advance(FirstClosure)
	probe := r.pass("h")
	r.held("h")
	probe.Done(Result{})
	second := r.pass("h")
	r.held("h")
	second.Done(good)
	if !r.state("h").Open {
		t.Error("the second probe does not open the gate")
	}
}

// C16.96, C16.99: a Retry-After closes the gate until that time, makes a closure
// longer and never shorter.
func TestRetryAfterCloses(t *testing.T) {
	t.Parallel()
	throttled := func(d *time.Duration) Result { return Result{Health: outcome.Bad, Closes: true, CloseFor: d} }
	r := newRig(t, Config{})
	a, b, c := r.pass("h"), r.pass("h"), r.pass("h")
	a.Done(throttled(after(time.Minute)))
	b.Done(throttled(after(time.Second)))
	if got := r.state("h").Closed; got != time.Minute {
		t.Errorf("after a second, shorter Retry-After the closure lasts %s, want 1m", got)
	}
	c.Done(throttled(after(2 * time.Minute)))
	if got := r.state("h").Closed; got != 2*time.Minute {
		t.Errorf("after a longer Retry-After the closure lasts %s, want 2m", got)
	}
	r.clock.Advance(2*time.Minute - 1)
	r.held("h")
	r.clock.Advance(1)

	// Throttling without Retry-After causes a closure like that of bad answers.
	r.pass("h").Done(throttled(nil))
	if got := r.state("h").Closed; got != FirstClosure {
		t.Errorf("a 429 without Retry-After closes for %s, want %s", got, FirstClosure)
	}
	r.clock.Advance(FirstClosure)
	r.pass("h").Done(throttled(nil))
	if got := r.state("h").Closed; got != 2*FirstClosure {
		t.Errorf("the second one closes for %s, want %s", got, 2*FirstClosure)
	}

	// After a Retry-After of 0, the next try is a probe.
	r.clock.Advance(2 * FirstClosure)
	r.pass("h").Done(throttled(after(0)))
	r.pass("h")
	r.held("h")
}

// Tries that began before a closure neither open the gate nor close it again.
func TestTriesBeforeAClosureDoNotChangeTheGate(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for range 30 {
		r.try("h", ms, good)
	}
	r.clock.Advance(20 * time.Second)
	var old []*Permit

	for range 6 {
		old = append(old, r.pass("h"))
	}
	r.pass("h").Done(Result{Health: outcome.Bad, Closes: true})
	old[0].Done(good)
	old[1].Done(bad)
	old[2].Done(Result{Health: outcome.Bad, Closes: true})
	if s := r.state("h"); s.Open || s.Closed != FirstClosure {
		t.Errorf("%+v, want closed for %s", s, FirstClosure)
	}
	r.clock.Advance(FirstClosure)
	r.pass("h").Done(good)
	for _, p := range old[3:] {
		p.Done(bad)
	}
	if s := r.state("h"); !s.Open || s.Limit != 1 || s.InFlight != 0 {
		t.Errorf("%+v, want open, with a limit of 1 and nothing in flight", s)
	}
}

// C16.101: jobs that are held back are due one after the other at the rate of the host, after
// at least 50 ms and at most 5 minutes.
func TestHeldBackJobsAreDueOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for range 100 {
		r.try("h", 100*ms, good)
	}
	limit := r.state("h").Limit
	for range limit {
		r.pass("h")
	}
	gap := 100 * ms / time.Duration(limit)
	for i := range 20 {
		got, want := r.held("h"), max(time.Duration(i)*gap, MinHold)
		if got < want*9/10 || got > want*11/10 {
			t.Errorf("job %d is held for %s, want about %s", i, got, want)
		}
	}
	for range 100_000 {
		if wait := r.held("h"); wait > MaxHold {
			t.Fatalf("a job is held for %s, want %s at most", wait, MaxHold)
		}
	}
	if n := r.state("h").HeldBack; n != 100_020 {
		t.Errorf("%d jobs are held back, want 100020", n)
	}
	r.clock.Advance(MaxHold + time.Second)
	if n := r.state("h").HeldBack; n != 0 {
		t.Errorf("after the last turn %d jobs are held back, want 0", n)
	}

	// At a closed gate, the turns begin after the closure.
	r = newRig(t, Config{})
	r.close("h")
	if wait := r.held("h"); wait != FirstClosure {
		t.Errorf("the first job is held for %s, want %s", wait, FirstClosure)
	}
	if wait := r.gates.HoldBack("h", Bounds{}); wait <= FirstClosure || wait > FirstClosure+time.Second {
		t.Errorf("a throttled job is held for %s, want a bit more than %s", wait, FirstClosure)
	}
	r.clock.Advance(FirstClosure)
	r.pass("h")
	if wait := r.held("h"); wait < 2*FirstClosure {
		t.Errorf("during the probe a job is held for %s, want %s at least", wait, 2*FirstClosure)
	}
}

// Before the first answer, jobs come back every GuessedHold. Each of them still counts once
// in the line.
func TestJobsHeldBeforeTheFirstAnswerHaveOnePlace(t *testing.T) {
	t.Parallel()
	const jobs, answer = 60, time.Second
	r := newRig(t, Config{})
	due, running := make([]time.Duration, jobs), map[*Permit]time.Duration{}

	for now := time.Duration(0); now < time.Minute; now += 10 * ms {
		for p, end := range running {
			if now >= end {
				p.Done(good)
				delete(running, p)
			}
		}
		left := due[:0]
		for _, at := range due {
			if now < at {
				left = append(left, at)
				continue
			}
			p, wait := r.gates.Admit("h", Bounds{}, at > 0)
			if p == nil {
				left = append(left, now+wait)
				continue
			}
			running[p] = now + answer
		}
		if due = left; len(due) == 0 {
			break
		}
		r.clock.Advance(10 * ms)
	}

	if len(due) > 0 {
		t.Errorf("%d of %d jobs have not been sent to a host that accepts four per second after a minute", len(due),
			jobs)
	}
	if now := r.clock.Mono(); now > jobs*answer/StartLimit {
		t.Errorf("the last of %d jobs was sent after %v, want %v at most", jobs, now, jobs*answer/StartLimit)
	}
}

// While jobs are held back, a free place is for a job that comes back. A new job gets the place if
// no such job comes.
func TestJobsThatComeBackGoFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for range 10 {
		r.try("h", 100*ms, good)
	}
	var passes []*Permit

	for range r.state("h").Limit {
		passes = append(passes, r.pass("h"))
	}
	for range 1000 {
		r.held("h")
	}
	passes[0].Done(good)
	r.held("h") // one place is free now
	back := r.pass("h")
	back.Done(good)
	passes[1].Done(good)
	if p, _ := r.gates.Admit("h", Bounds{}, false); p == nil {
		t.Error("with two free places a new job gets none")
	}
	for _, p := range passes[2:] {
		p.Done(good)
	}
	if p, _ := r.gates.Admit("h", Bounds{}, false); p == nil {
		t.Error("an idle host admits no new job")
	}
}

// C16.100: when there are too many hosts, the one that has been idle longest is removed, but
// never one with a try in flight.
func TestHostThatIsIdleLongestIsRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Hosts: 3})
	busy := r.pass("busy")
	r.pass("a").Done(good)
	r.pass("b").Done(good)
	r.pass("a").Done(good)
	r.pass("c").Done(good)
	var names []string

	for _, s := range r.gates.States() {
		names = append(names, s.Host)
	}
	if want := []string{"c", "a", "busy"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the hosts are %v, want %v", names, want)
	}
	if n := len(r.gates.hosts); n != 3 {
		t.Errorf("%d hosts are found by name, want 3", n)
	}
	busy.Done(good)
	if s := r.state("busy"); s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// C16.100: 10 000 hosts need 4 KiB each at most.
func TestHostsUseLittleMemory(t *testing.T) {
	g := New(Config{Clock: clock.NewFake()})
	var before, afterwards runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 2 * DefaultHosts {
		p, _ := g.Admit(fmt.Sprintf("https://host-%d.example.com:8443", i), Bounds{}, false)
		p.Done(good)
	}
	runtime.GC()
	runtime.ReadMemStats(&afterwards)
	if n := len(g.States()); n != DefaultHosts {
		t.Errorf("%d hosts are remembered, want %d", n, DefaultHosts)
	}

	if per := (afterwards.HeapAlloc - before.HeapAlloc) / DefaultHosts; per > 4<<10 {
		t.Errorf("a host needs %d bytes, want 4096 at most", per)
	} else {
		t.Logf("a host needs %d bytes", per)
	}
	runtime.KeepAlive(g)
}

// FuzzGates runs random events and checks invariants. C16.88: there are never more tries in flight
// than the limit. C16.97: there is one probe at a time. C16.99: no closure is shorter than
// reported. C16.102: a job that is held back waits for the end of the closure.
func FuzzGates(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0x41, 0x42, 0x83, 0xc4, 0x05, 0xff, 0x7f})
	f.Add([]byte{0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0xff, 0xff, 0, 0, 0x40})
	f.Fuzz(func(t *testing.T, script []byte) {
		script = script[:min(len(script), 2000)]
		first, second := runScript(t, script), runScript(t, script)
		if first != second {
			t.Errorf("one script has two results:\n%s\n%s", first, second)
		}
	})
}

// runScript plays a script and returns what happened.
func runScript(t *testing.T, script []byte) string {
	var log strings.Builder
	c := clock.NewFake()
	closedUntil := map[string]time.Duration{}

	g := New(Config{Clock: c, Slots: 12, Hosts: 2, Changed: func(ch Change) {
		fmt.Fprintf(&log, "%s %+v\n", c.Mono(), ch)
		delete(closedUntil, ch.Host)
		if !ch.Open {
			closedUntil[ch.Host] = c.Mono() + ch.For
		}
	}})

	var passes []*Permit
	hosts := []string{"a", "b", "c"}

	for _, b := range script {
		host := hosts[int(b&0x0f)%len(hosts)]
		switch b >> 6 {
		case 0:
			before, known := g.hosts[host]
			if !known {
				delete(closedUntil, host) // the host was evicted, so its closure is forgotten
			}
			wasOpen := !known || before.state == open
			p, wait := g.Admit(host, Bounds{Concurrency: 6}, b&0x10 != 0)
			h := g.hosts[host]
			switch {
			case p == nil && (wait < MinHold || c.Mono()+wait < closedUntil[host]):
				t.Fatalf("held for %s at %s, closed until %s", wait, c.Mono(), closedUntil[host])
			case p == nil:
			case c.Mono() < closedUntil[host]:
				t.Fatalf("admitted at %s, closed until %s", c.Mono(), closedUntil[host])
			case wasOpen && h.inFlight > h.limiter.Limit():
				t.Fatalf("%d in flight, the limit is %d", h.inFlight, h.limiter.Limit())
			case !wasOpen && h.probe != p:
				t.Fatal("a second try while the gate probes")
			}
			if p != nil {
				passes = append(passes, p)
			} else {
				log.WriteString(wait.String() + "\n")
			}
		case 1, 2:
			if len(passes) == 0 {
				continue
			}
			i := int(b&0x1f) % len(passes)
			p := passes[i]
			passes = append(passes[:i], passes[i+1:]...)
			p.Done([]Result{good, bad, {}, {Health: outcome.Bad, Closes: true},
				{Health: outcome.Bad, Closes: true, CloseFor: after(time.Duration(b) * time.Second)}}[int(b>>2)%5])
		default:
			c.Advance(time.Duration(b&0x3f) * time.Duration(b&0x3f) * 10 * ms)
		}
		total := 0
		for _, s := range g.States() {
			if total += s.InFlight; s.Limit < 1 || s.Limit > 6 || s.InFlight < 0 || s.HeldBack < 0 {
				t.Fatalf("%+v", s)
			}
		}
		if total != len(passes) || total > 12 {
			t.Fatalf("%d tries in flight, %d passes", total, len(passes))
		}
	}

	return log.String()
}
