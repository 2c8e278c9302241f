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

// The size of a run of Model, unless DULY_MODEL_SEQUENCES and
// DULY_MODEL_STEPS say otherwise. The long one is for DULY_LONG.
const (
	modelSequences      = 300
	modelSequencesShort = 15
	modelSequencesLong  = 10_000
	modelSteps          = 60
	modelStepsLong      = 100
)

// Model plays random operations and clock movements against the engine and
// against the reference model, and compares after each of them everything that
// both answer: results, deliveries, errors, and now and then all that can be
// seen of every queue.
//
// The run is DULY_MODEL_SEQUENCES (300) scripts of DULY_MODEL_STEPS (60)
// operations, counted; 10 000 of 100 with DULY_LONG set. It goes on for a while
// if it has not made every transition of the state table by then. A script
// that shows a difference is made as short as it goes, and printed with the
// seed that makes it again: scripts have the seeds from DULY_MODEL_SEED on, by
// default a random one.
func (s Suite) Model(t *testing.T) {
	asked := modelSize(t, s.Sequences)
	seed := fromEnv(t, "DULY_MODEL_SEED", int(rand.Int32N(1<<30)))
	done := &modelRun{moves: map[model.Move]int{}}
	for ; !done.enough(asked); seed++ {
		sc := scripts(asked.steps).Example(seed)
		var moves map[model.Move]int
		try(t, sc, seed, asked.steps, func(sc script) (err error) {
			moves, err = s.sequence(t, sc)
			return err
		})
		done.add(len(sc), moves)
	}
	t.Logf("%d sequences, %d operations, %d kinds of transitions", done.sequences, done.steps, len(done.moves))
	if !done.covers(asked) {
		t.Errorf("that is less than %d sequences of %d operations", asked.sequences, asked.steps)
	}
	if !asked.rare() {
		return
	}
	for _, m := range unreached(done.moves) {
		t.Errorf("no sequence brought a job from %s by %s to %s", m.From, m.Event, m.To)
	}
}

// try plays a script. One that fails is made as short as it goes, and ends the test.
func try(t *testing.T, sc script, seed, steps int, play func(script) error) {
	t.Helper()
	err := play(sc)
	if err == nil {
		return
	}
	short, why := shrink(sc, err, play)
	t.Fatalf("%v\nThe script is%#v\nIt was cut from %d operations, which\n"+
		"DULY_MODEL_SEED=%d DULY_MODEL_STEPS=%d DULY_MODEL_SEQUENCES=1 makes again.",
		why, short, len(sc), seed, steps)
}

// modelRun counts what was played.
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

// asking is how much is to be played.
type asking struct{ sequences, steps int }

// rare tells whether it is enough for the rare transitions.
func (a asking) rare() bool { return !testing.Short() && a.sequences >= modelSequences }

func (r *modelRun) covers(a asking) bool {
	return r.sequences >= a.sequences && r.steps >= a.sequences*a.steps
}

// luck is how many times as long a run may go on for a rare transition: that one
// of them is missed in the usual 300 sequences happens once in ten runs.
const luck = 6

// enough lets a run that was unlucky with a rare transition go on for a while.
func (r *modelRun) enough(a asking) bool {
	return r.covers(a) && (len(unreached(r.moves)) == 0 || !a.rare() || r.sequences >= luck*a.sequences)
}

func modelSize(t *testing.T, usual int) asking {
	t.Helper()
	a := asking{cmp.Or(usual, modelSequences), modelSteps}
	switch {
	case long():
		a = asking{modelSequencesLong, modelStepsLong}
	case testing.Short():
		a.sequences = min(a.sequences, modelSequencesShort)
	}
	return asking{fromEnv(t, "DULY_MODEL_SEQUENCES", a.sequences), fromEnv(t, "DULY_MODEL_STEPS", a.steps)}
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

// unseen are the transitions of the table that no model counts, each with the
// reason.
var unseen = map[model.Move]string{
	{Event: contract.EventExpire, From: duly.StateLeased, To: duly.StateLeased}: "nothing happens while the lease stops the TTL's hand",
	{Event: contract.EventMerge, From: duly.StateDead, To: duly.StateDead}:      "it holds no merge key, so the push does not meet it",
	{Event: contract.EventMerge, From: duly.StateDone, To: duly.StateDone}:      "it holds no merge key, so the push does not meet it",
	{Event: contract.EventMerge, From: duly.StateReady, To: duly.StateBlocked}:  "a ready job holds its order key",
	{Event: contract.EventUpdate, From: duly.StateReady, To: duly.StateBlocked}: "a ready job holds its order key",
	{Event: contract.EventMerge, From: duly.StateBlocked, To: duly.StateReady}:  "another job holds its order key",
	{Event: contract.EventUpdate, From: duly.StateBlocked, To: duly.StateReady}: "another job holds its order key",
}

// unreached lists the transitions of the state table that were not made.
func unreached(moves map[model.Move]int) (missing []model.Move) {
	for _, event := range contract.Events {
		for _, from := range duly.States {
			for _, to := range contract.Next(from, event).To {
				m := model.Move{Event: event, From: from, To: to}
				if _, never := unseen[m]; !never && moves[m] == 0 {
					missing = append(missing, m)
				}
			}
		}
	}
	return missing
}

// sequence plays one script on an engine of its own.
func (s Suite) sequence(t *testing.T, sc script) (moves map[model.Move]int, err error) {
	s.onEngine(t, func(ctx context.Context, h *Harness) { moves, err = playBoth(ctx, h, sc) })
	return moves, err
}

// onEngine lets f have an engine of its own, which is closed at its end.
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
	passing := &passingTB{TB: t}
	defer passing.end()
	h := s.New(passing, options)
	h.Shards = s.Shards
	f(t.Context(), h)
}

// passingTB is a test whose clean-ups run before it ends.
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

// script is the operations of one sequence.
type script []operation

// GoString prints a script for people: one operation per line.
func (sc script) GoString() string {
	var b strings.Builder
	for i, o := range sc {
		fmt.Fprintf(&b, "\n%3d %s", i+1, describe(o))
	}
	return b.String()
}

// describe is the operation's type and its fields that are set.
func describe(o operation) string {
	text := fmt.Sprintf("%+v", o)
	return cmp.Or(strings.TrimPrefix(fmt.Sprintf("%T", o), "enginetest."), "?") + " " + text
}
