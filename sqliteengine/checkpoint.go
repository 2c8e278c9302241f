package sqliteengine

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

const (
	// logPages is how many pages the log holds before it is moved into the
	// file: 8 MiB.
	logPages = 1000
	// shortPass is the time of a pass that has little left to move.
	shortPass = 4 * time.Millisecond
	// maxPasses bounds the passes of one checkpoint.
	maxPasses = 6
	// checkpointPause is the longest time for which a checkpoint keeps new reads
	// from beginning.
	checkpointPause = 100 * time.Millisecond
	// betweenPauses follows a pause in which reads did not end. So reads wait for
	// at most a tenth of the time, although a backup needs the log for an hour.
	betweenPauses = 10 * checkpointPause
	// keptPages is how many free pages are not worth the work: 2 MiB.
	keptPages = 256
)

// checkpoints moves the log into the file while the writer goes on:
//
//  1. A connection of its own makes passes, each over what the one before has
//     left.
//  2. The writer moves the rest between two transactions. If no read needs the
//     log then, the next transaction restarts the log at its beginning.
//  3. Otherwise new reads wait at the gate until those under way have ended. Then
//     2 is repeated, after 1 if much is left, and the gate opens. It opens in any
//     case after checkpointPause.
type checkpoints struct {
	w     *writer
	phase phase
	done  chan passed // holds the result of the passes

	left    int           // pages that the passes have left
	behind  int           // the log's pages when they had
	pauseAt time.Duration // the earliest next pause, on the monotonic clock
}

// passed is the result of passes.
type passed struct {
	left int
	err  error
}

// phase is what a checkpoint waits for.
type phase int

const (
	phaseNone        phase = iota // no checkpoint is under way
	phasePasses                   // the end of the passes
	phaseReads                    // the end of reads, the gate being closed
	phasePassesAlone              // the end of the passes, the gate being closed
)

// start begins a checkpoint if the log is long enough and none is under way. A
// store that has failed begins none: its log is written again first.
func (k *checkpoints) start() {
	if k.phase != phaseNone || k.w.pages < logPages || k.w.c == nil {
		return
	}
	k.run(phasePasses)
}

// run begins the passes.
func (k *checkpoints) run(p phase) {
	k.phase = p
	go func() {
		left, err := k.passes()
		k.done <- passed{left, err}
		k.w.e.inbox.ring()
	}()
}

func (k *checkpoints) passes() (left int, err error) {
	c, err := k.w.e.connect(sq.ReadWrite)
	if err != nil { // as a text: it says nothing about what is on the disk
		return 0, fmt.Errorf("sqliteengine: no connection for a checkpoint: %v", err)
	}
	defer c.close()
	for range maxPasses {
		begun := k.w.clock.Mono()
		log, moved, err := c.Checkpoint(sq.Passive)
		if err != nil {
			return 0, err
		}
		if left = log - moved; left == 0 || k.w.clock.Mono()-begun < shortPass {
			break
		}
	}
	return left, nil
}

// due reports whether finish has something to do.
func (k *checkpoints) due() bool {
	switch k.phase {
	case phaseNone:
		return false
	case phaseReads:
		return !k.w.e.readers.gate.busy()
	}
	return len(k.done) > 0
}

// finish goes on with a checkpoint. It reports whether it has done anything.
func (k *checkpoints) finish() (bool, error) {
	if !k.due() {
		return false, nil
	}
	if k.phase != phaseReads {
		passed := <-k.done
		if passed.err != nil {
			k.end()
			return true, passed.err
		}
		k.left, k.behind = passed.left, k.w.pages
	}

	restarted, err := k.restart()
	if err == nil && !restarted && k.goOn() {
		return true, nil
	}
	k.end()

	k.w.pages, k.w.vacuum = 0, true
	if !restarted {
		k.w.pages = logPages / 2 // again in a while
		return true, err
	}
	return true, k.w.room.trim()
}

// goOn lets a checkpoint wait for the end of reads, and then repeats the passes.
// It reports false if the checkpoint must end.
func (k *checkpoints) goOn() bool {
	gate := &k.w.e.readers.gate
	switch {
	case k.phase == phasePasses && gate.clock.Mono() >= k.pauseAt:
		k.phase = phaseReads
		gate.close(checkpointPause, k.w.e.inbox.ring)
		return true
	case k.phase == phaseReads && gate.isClosed() && !k.little():
		k.run(phasePassesAlone)
		return true
	}
	return false
}

// end forgets a checkpoint and lets reads go on.
func (k *checkpoints) end() {
	gate := &k.w.e.readers.gate
	if k.phase == phaseReads && !gate.isClosed() { // reads did not end
		k.pauseAt = gate.clock.Mono() + betweenPauses
	}
	k.phase = phaseNone
	gate.open()
}

// stop waits for passes that are under way, and forgets the checkpoint.
func (k *checkpoints) stop() {
	if k.phase == phasePasses || k.phase == phasePassesAlone {
		<-k.done
	}
	k.end()
}

// little reports whether the rest of the log is so short that the writer itself
// can move it.
func (k *checkpoints) little() bool { return k.left+k.w.pages-k.behind <= logPages }

// restart moves the rest of the log and lets the next transaction write to the
// log's beginning. It reports false if much is left or a read needs the log: the
// writer must not wait for either.
func (k *checkpoints) restart() (bool, error) {
	if !k.little() {
		return false, nil
	}
	c := k.w.c
	if err := c.Exec("PRAGMA busy_timeout = 0"); err != nil {
		return false, err
	}

	_, _, err := c.Checkpoint(sq.Restart)
	restarted := err == nil
	if sq.IsBusy(err) {
		err = nil
	}
	return restarted, errors.Join(err, c.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout)))
}

// idle does what can wait until nobody waits for the writer, in slices. It
// tells whether there may be more of it.
func (w *writer) idle() bool {
	if w.c == nil {
		return false
	}
	again, err := w.chore()
	if err != nil {
		w.unanswered(err) // the next transaction tries again: on a disk with room anew the log must not take all of it
		return false
	}
	if again {
		w.told = ""
	}
	return again
}

// unanswered ends what nobody waits for and has failed.
func (w *writer) unanswered(err error) {
	if w.mustReopen(err) {
		w.fail(err)
		return
	}
	if !sq.IsBusy(err) { // a checkpoint that met the writer in the moment in which it ended a transaction
		w.tell(err)
	}
}

// tell tells the log of such an error, once as long as it stays the same.
func (w *writer) tell(err error) {
	if text := err.Error(); w.failure == nil && text != w.told {
		w.told = text
		w.log.Warn("work beside the callers' has failed; it is tried again", "path", w.e.cfg.Path, "error", err)
	}
}

// chore does one slice of what can wait.
func (w *writer) chore() (again bool, err error) {
	if w.regain() {
		return true, nil
	}
	w.checkpoints.start()
	if ended, err := w.checkpoints.finish(); ended || err != nil {
		return true, err
	}
	if w.graves {
		return true, w.bury()
	}
	if w.vacuum {
		return true, w.shrink()
	}
	return false, nil
}

// shrink gives a slice of free pages back to the disk, while a quarter of the
// file is free.
func (w *writer) shrink() error {
	free, err := w.pragma("PRAGMA freelist_count")
	if err != nil {
		return err
	}
	pages, err := w.pragma("PRAGMA page_count")
	if err != nil {
		return err
	}
	if w.vacuum = free > keptPages && free > pages/4; !w.vacuum {
		return nil
	}
	return w.vacuumSlice("vacuum_slice")
}

// vacuumSlice runs a statement that gives free pages back.
func (w *writer) vacuumSlice(name string) error {
	s := w.c.stmt(name)
	for {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			w.pages += w.c.PagesWritten()
			return nil
		}
	}
}

func (w *writer) pragma(sql string) (int64, error) {
	text, err := w.c.Query(sql)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// bury removes a slice of what a destroyed queue has left behind.
func (w *writer) bury() error {
	return w.try([]*op{{run: func(t *tx) error {
		s := t.stmt("grave_next")
		if _, err := s.Step(); err != nil {
			return err
		}

		empty, id := s.ColNull(0), s.ColInt(0)
		s.Reset()
		if w.graves = !empty; empty {
			return nil
		}

		left := 0
		for _, name := range [...]string{"bury_jobs", "bury_bodies", "bury_aliases", "bury_heads", "bury_merges", "bury_replaceable", "bury_expiries",
			"bury_messages", "bury_delayed", "bury_seen"} {
			n, err := t.stmt(name).Int(1, id).Int(2, stepBound).Run()
			if err != nil {
				return err
			}
			left += n
		}

		if left > 0 {
			return nil
		}

		_, err := t.stmt("grave_close").Int(1, id).Run()
		return err
	}}})
}
