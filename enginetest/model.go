package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
)

// These are the defaults of the size of a run of Model. DULY_MODEL_SEQUENCES and DULY_MODEL_STEPS
// override them. The long values apply with DULY_LONG, the short one with -short.
const (
	modelSequences      = 300
	modelSequencesShort = 15
	modelSequencesLong  = 10_000
	modelSteps          = 60
	modelStepsLong      = 100
)

// Model runs random operations and clock changes against the engine and against the reference
// model. After each of them it compares results, deliveries and errors. From time to time it
// compares everything that the API shows of every queue.
//
// A run has DULY_MODEL_SEQUENCES (300) scripts of DULY_MODEL_STEPS (60) operations. With DULY_LONG
// it has 10 000 scripts of 100. If it has not made every transition of the state table by then, it
// continues for some time. A script that shows a difference is shortened as far as possible. It is
// printed with the seed that creates it again. Scripts have the seeds from DULY_MODEL_SEED on, by
// default a random one.
func (s Suite) Model(t *testing.T) {
	skipScripts(t)
	asked := modelSize(t, s.Sequences)
	seed := fromEnv(t, "DULY_MODEL_SEED", int(rand.Int32N(1<<30)))
	done := &modelRun{moves: map[model.Move]int{}}
	for ; !done.enough(asked); seed++ {

		sc := scripts(asked.steps).Example(seed)
		var moves map[model.Move]int
		// Each script has a separate engine, so the moves belong to this script.
		try(t, sc, seed, asked.steps, func(sc script) (err error) {
			moves, err = s.sequence(t, sc)
			return err
		})
		done.add(len(sc), moves)
	}
	t.Logf("%d sequences, %d operations, %d kinds of transitions", done.sequences, done.steps, len(done.moves))
	if !done.covers(asked) {
		t.Errorf("the run is smaller than %d sequences of %d operations", asked.sequences, asked.steps)
	}
	// A short run need not make the rare transitions.
	if !asked.rare() {
		return
	}
	for _, m := range unreached(done.moves) {
		t.Errorf("no sequence brought a job from %s by %s to %s", m.From, m.Event, m.To)
	}
}

// skipScripts skips random scripts in short runs. These look for data races, and a script makes one
// call after the other.
func skipScripts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs without -short")
	}
}

// try runs a script. A script that fails is shortened as far as possible, and ends the test.
func try(t *testing.T, sc script, seed, steps int, play func(script) error) {
	t.Helper()
	err := play(sc)
	if err == nil {
		return
	}
	short, why := shrink(sc, err, play)
	t.Fatalf("%v\nThe script is%#v\nIt was shortened from %d operations. To create them again, run with\n"+
		"DULY_MODEL_SEED=%d DULY_MODEL_STEPS=%d DULY_MODEL_SEQUENCES=1.",
		why, short, len(sc), seed, steps)
}

// modelRun counts what was run.
type modelRun struct {
	sequences, steps int
	moves            map[model.Move]int
}

func (r *modelRun) add(steps int, moves map[model.Move]int) {
	r.sequences++
	r.steps += steps
	for m, n := range moves {
		r.moves[m] += n
	}
}

// runSize is the size of a run.
type runSize struct{ sequences, steps int }

// rare reports whether the run is long enough to make the rare transitions.
func (a runSize) rare() bool { return !testing.Short() && a.sequences >= modelSequences }

func (r *modelRun) covers(a runSize) bool {
	return r.sequences >= a.sequences && r.steps >= a.sequences*a.steps
}

// luck is the largest size of a run that waits for a rare transition, as a multiple of its normal
// size. About one run in ten misses one of them in its first 300 sequences.
const luck = 6

// enough reports whether the run can end. It lets a run continue for a while if rare transitions
// are missing.
func (r *modelRun) enough(a runSize) bool {
	return r.covers(a) && (len(unreached(r.moves)) == 0 || !a.rare() || r.sequences >= luck*a.sequences)
}

func modelSize(t *testing.T, usual int) runSize {
	t.Helper()
	a := runSize{cmp.Or(usual, modelSequences), modelSteps}
	switch {
	case long():
		a = runSize{modelSequencesLong, modelStepsLong}
	case testing.Short():
		a.sequences = min(a.sequences, modelSequencesShort)
	}
	return runSize{fromEnv(t, "DULY_MODEL_SEQUENCES", a.sequences), fromEnv(t, "DULY_MODEL_STEPS", a.steps)}
}

func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number of at least 1", name, text)
	}
	return n
}

// impossible are transitions that the table allows but that no model can count, each with the
// reason.
var impossible = map[model.Move]string{
	{Event: contract.EventExpire, From: duly.StateLeased,
		To: duly.StateLeased}: "nothing happens, because a job does not expire while it is leased",
	{Event: contract.EventMerge, From: duly.StateDead,
		To: duly.StateDead}: "it holds no merge key, so no push can be merged into it",
	{Event: contract.EventMerge, From: duly.StateDone,
		To: duly.StateDone}: "it holds no merge key, so no push can be merged into it",
	{Event: contract.EventMerge, From: duly.StateReady, To: duly.StateBlocked}:  "a ready job holds its order key",
	{Event: contract.EventUpdate, From: duly.StateReady, To: duly.StateBlocked}: "a ready job holds its order key",
	{Event: contract.EventMerge, From: duly.StateBlocked, To: duly.StateReady}:  "another job holds its order key",
	{Event: contract.EventUpdate, From: duly.StateBlocked, To: duly.StateReady}: "another job holds its order key",
}

// unreached returns the transitions of the state table that were not made.
func unreached(moves map[model.Move]int) (missing []model.Move) {
	for _, event := range contract.Events {
		for _, from := range duly.States {
			for _, to := range contract.Next(from, event).To {
				m := model.Move{Event: event, From: from, To: to}
				if _, never := impossible[m]; !never && moves[m] == 0 {
					missing = append(missing, m)
				}
			}
		}
	}
	return missing
}

// sequence runs a script on a new engine.
func (s Suite) sequence(t *testing.T, sc script) (moves map[model.Move]int, err error) {
	s.onEngine(t, func(ctx context.Context, h *Harness) { moves, err = playBoth(ctx, h, sc) })
	return moves, err
}

// onEngine calls f with a new engine, and closes it afterwards.
func (s Suite) onEngine(t *testing.T, f func(ctx context.Context, h *Harness)) {
	options := Options{MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, Shards: s.Shards}
	if s.Bubble {
		synctest.Test(t, func(t *testing.T) {
			h := s.New(t, options)
			if h.Quiet == nil {
				h.Quiet = synctest.Wait
			}
			h.Shards = s.Shards
			f(t.Context(), h)
		})
		return
	}
	// Clean up after each sequence. A long run would otherwise keep thousands of engines open.
	passing := &passingTB{TB: t}
	defer passing.end()
	h := s.New(passing, options)
	h.Shards = s.Shards
	f(t.Context(), h)
}

// passingTB is a testing.TB whose cleanups run when end is called.
type passingTB struct {
	testing.TB
	cleanups []func()
}

// Cleanup implements testing.TB.
func (p *passingTB) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *passingTB) end() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
}

// script is the list of operations of one sequence.
type script []operation

// GoString formats a script with one operation per line.
func (sc script) GoString() string {
	var b strings.Builder
	for i, o := range sc {
		fmt.Fprintf(&b, "\n%3d %s", i+1, describe(o))
	}
	return b.String()
}

// describe returns the operation's type and fields.
func describe(o operation) string {
	text := fmt.Sprintf("%+v", o)
	return cmp.Or(strings.TrimPrefix(fmt.Sprintf("%T", o), "enginetest."), "?") + " " + text
}
