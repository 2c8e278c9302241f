package redisengine_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/lua"
)

// TestStateDoesNotLeakBetweenCalls checks that one call's variables don't reach the next,
// although the functions of a library share one scope that outlives a call. Random sequences of
// all functions must have the same answers and the same keys with a fresh library per call, and
// by EVAL. Foreign keys make some calls fail midway.
//
// C11.17
func TestStateDoesNotLeakBetweenCalls(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a short run looks for data races, and a script runs in the server's one thread")
	}
	x := newInterrupter(t, "functions")
	// Rehashing would change the order of scans at random.
	x.must(t, "CONFIG", "SET", "activerehashing", "no")
	for _, name := range lua.Names() {
		x.must(t, "SCRIPT", "LOAD", lua.Load(name).Source)
	}

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	stores := []*recorded{x.record(t, false), x.record(t, true)}
	called, rounds := map[string]int{}, 16
	if long() {
		rounds = 400
	}
	for round := range rounds {
		s := stores[round%len(stores)]
		start, steps := s.snapshots[r.IntN(len(s.snapshots))], s.steps(r)
		kept := x.play(t, start, steps, x.callKept)
		x.compare(t, steps, kept, x.play(t, start, steps, x.callFresh), "with a library of its own")
		x.compare(t, steps, kept, x.play(t, start, steps, x.callByText), "by EVAL")
		for i, step := range steps {
			if !strings.HasPrefix(kept[i], "error") {
				called[step.call.name]++
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("answered calls: %v", called)
	for _, name := range lua.Names() {
		if called[name] == 0 && long() {
			t.Errorf("no call of %s was answered", name)
		}
	}
}

// recorded has snapshots of a store, and calls about its jobs.
type recorded struct {
	snapshots [][]any
	calls     []scriptCall
}

// record applies all operations to one store, either with jobs of every kind or only with plain
// jobs. Afterwards it applies some operations to tokens and placements.
func (x *interrupter) record(t *testing.T, plain bool) *recorded {
	x.must(t, "FLUSHALL")
	r := openDamagedOn(t, x.server, "s4", 1, clock.NewFake(), "scripts=functions")
	r.fill(1)
	if plain {
		onlyPlain(r)
	}
	s := &recorded{snapshots: [][]any{x.snapshot(t)}}
	note := func(f func()) {
		s.calls = append(s.calls, x.listen(t, f)...)
		s.snapshots = append(s.snapshots, x.snapshot(t))
	}

	for _, d := range inOrder(plain) {
		if d.setup != nil && !plain {
			d.setup(r)
		}
		note(func() { d.do(r) })
	}
	note(func() { registryDeed(r) })
	return s
}

// inOrder returns the operations in the order in which they must run. Check comes first, because it
// damages jobs on purpose. Configure and Destroy come last, because they change the configuration's
// version, which all calls carry.
func inOrder(plain bool) []operation {
	rank := map[string]int{"Check": -1, "Configure": 1, "Destroy": 2}
	alone := func(d operation) bool { return strings.Contains(d.name, "Plain") || strings.HasSuffix(d.name, "Alone") }
	list := slices.DeleteFunc(slices.Concat(operations, scheduleOperations), func(d operation) bool { return alone(d) && !plain })
	slices.SortStableFunc(list, func(a, b operation) int { return rank[a.name] - rank[b.name] })
	return list
}

// registryDeed calls every operation on a token, and on a placement.
func registryDeed(r *damageRig) {
	ctx, hash := r.Context(), sha256.Sum256([]byte("shop"))
	must(r, r.e.PutToken(ctx, token("shop")))
	must(r, r.e.LimitToken(ctx, hash, contract.Limits{Consume: 3, Per: time.Minute}))
	window, err := r.e.Spend(ctx, hash, contract.RightConsume)
	must(r, err)
	must(r, r.e.GiveBack(ctx, hash, contract.RightConsume, window))
	_, err = r.e.Tokens(ctx, "", duly.PageParams{})
	must(r, err)
	must(r, r.e.PutPlacement(ctx, contract.Placement{Namespace: "shop", Pool: "a"}))
	_, err = r.e.Placements(ctx, duly.PageParams{})
	must(r, err)
	must(r, r.e.PutTarget(ctx, contract.Target{Namespace: "shop", Name: "crm"}))
	_, err = r.e.Targets(ctx, "shop", duly.PageParams{})
	must(r, err)
	must(r, r.e.DeleteTarget(ctx, "shop", "crm"))
	must(r, r.e.Configure(ctx, duly.Q("pushed"), duly.QueueConfig{Delivery: duly.DeliverPush}))
	_, err = r.e.PushQueues(ctx, duly.PageParams{})
	must(r, err)
	must(r, r.e.DeleteToken(ctx, hash))
}

// step is a script call. Another program may overwrite a key before it.
type step struct {
	call    scriptCall
	foreign any // the key that is overwritten; nil means none
}

// steps returns calls in random order, some of them repeated.
func (s *recorded) steps(r *rand.Rand) (list []step) {
	for range 40 {
		next := step{call: s.calls[r.IntN(len(s.calls))]}
		if keys := next.call.keys(); len(keys) > 0 && r.IntN(15) == 0 {
			next.foreign = keys[r.IntN(len(keys))]
		}
		list = append(list, next)
	}
	return list
}

// keys returns the keys of a call.
func (c scriptCall) keys() []any {
	n, _ := strconv.Atoi(fmt.Sprint(c.args[0]))
	return c.args[1 : n+1]
}

// play applies the steps to a store, and records each answer and the store after it.
func (x *interrupter) play(t *testing.T, start []any, steps []step,
	call func(*testing.T, scriptCall) (any, error)) (notes []string) {
	x.restore(t, start)
	for _, s := range steps {
		if s.foreign != nil {
			x.must(t, "DEL", s.foreign)
			x.must(t, "LPUSH", s.foreign, "what is this")
		}
		reply, err := call(t, s.call)
		answer := fmt.Sprintf("%#v", reply)
		if err != nil {
			answer = "error " + whereInScript.ReplaceAllString(err.Error(), "")
		}
		if s.foreign != nil {
			x.must(t, "DEL", s.foreign)
		}
		notes = append(notes, fmt.Sprint(answer, " ", x.must(t, "DEBUG", "DIGEST")))
	}
	return notes
}

// whereInScript matches the part of an error that differs between the forms: the position in the
// text.
var whereInScript = regexp.MustCompile(`(user_script|user_function|duly_\w+):\d+: | script: .*`)

func (x *interrupter) callKept(t *testing.T, c scriptCall) (any, error) {
	return x.conn.Do(t.Context(), x.usual[c.name].with(c.args...)...)
}

// callFresh loads a new library that is used only for this one call.
func (x *interrupter) callFresh(t *testing.T, c scriptCall) (any, error) {
	x.must(t, "FUNCTION", "LOAD", "REPLACE", lua.Load(c.name).Library.Source)
	return x.callKept(t, c)
}

func (x *interrupter) callByText(t *testing.T, c scriptCall) (any, error) {
	return x.conn.Do(t.Context(), append([]any{"EVAL", lua.Load(c.name).Source}, c.args...)...)
}

func (x *interrupter) compare(t *testing.T, steps []step, kept, other []string, how string) {
	t.Helper()
	for i := range steps {
		if kept[i] == other[i] {
			continue
		}
		var before []string
		for _, s := range steps[:i] {
			before = append(before, s.call.name)
		}
		t.Errorf("%s %q (foreign key %v) after %v:\n%s\n%s: %s", steps[i].call.name, steps[i].call.args, steps[i].foreign,
			before, kept[i], how, other[i])
		return
	}
}
