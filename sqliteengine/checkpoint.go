package sqliteengine

import (
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

const (
	// checkpointPages is how long the WAL grows, in pages, before a checkpoint: 8 MiB.
	checkpointPages = 1000
	// shortPass is the duration of a pass that leaves few pages for the next pass.
	shortPass = 4 * time.Millisecond
	// maxPasses is the maximum number of passes in one checkpoint.
	maxPasses = 6
	// checkpointPause is the longest time for which a checkpoint blocks new reads.
	checkpointPause = 100 * time.Millisecond
	// betweenPauses follows a pause in which reads did not end. Reads are thus
	// blocked for at most a tenth of the time, even if a backup needs the WAL for an
	// hour.
	betweenPauses = 10 * checkpointPause
	// keptFreePages is how many free pages the file keeps: 2 MiB. Returning fewer to
	// the disk is not worth the work.
	keptFreePages = 256
)

// checkpoints moves the WAL into the file while the writer continues:
//
//  1. A separate connection makes passes. Each pass moves what was written during
//     the one before.
//  2. The writer moves the rest between two transactions. If no read needs the WAL
//     then, the next transaction restarts it at its beginning.
//  3. Otherwise new reads wait at the gate until the running reads have ended. Then
//     step 2 is repeated, after step 1 if much is left, and the gate opens. It opens
//     in any case after checkpointPause.
type checkpoints struct {
	w     *writer
	phase phase
	done  chan passResult // receives the result of the passes

	left         int           // number of pages that the passes have left
	walPagesThen int           // number of pages in the WAL when the passes ended
	pauseAt      time.Duration // earliest time of the next pause, on the monotonic clock
}

// passResult is the result of the passes.
type passResult struct {
	left int
	err  error
}

// phase is the event that a checkpoint waits for.
type phase int

const (
	phaseNone        phase = iota // no checkpoint is running
	phasePasses                   // the end of the passes
	phaseReads                    // the end of the running reads, while the gate is closed
	phasePassesAlone              // the end of the passes, while the gate is closed
)

// start starts a checkpoint if the WAL is long enough and none is running. A failed
// store starts none, because reopening rewrites the WAL first.
func (k *checkpoints) start() {
	if k.phase != phaseNone || k.w.walPages < checkpointPages || k.w.c == nil {
		return
	}
	k.run(phasePasses)
}

// run starts the passes in the background.
func (k *checkpoints) run(p phase) {
	k.phase = p
	go func() {
		left, err := k.passes()
		k.done <- passResult{left, err}
		// The writer finishes the checkpoint and may be idle.
		k.w.e.inbox.signal()
	}()
}

func (k *checkpoints) passes() (left int, err error) {
	c, err := k.w.e.connect(sqliteconn.ReadWrite)
	// The error is formatted with %v, because a missing connection says nothing about the state of
	// the disk. With %w, mustReopen would treat it as a failure of the store.
	if err != nil {
		return 0, fmt.Errorf("sqliteengine: no connection for a checkpoint: %v", err)
	}
	defer c.close()

	for range maxPasses {
		begun := k.w.clock.Mono()
		log, moved, err := c.Checkpoint(sqliteconn.Passive)
		if err != nil {
			return 0, err
		}
		if left = log - moved; left == 0 || k.w.clock.Mono()-begun < shortPass {
			break
		}
	}
	return left, nil
}

// due reports whether finish has work to do.
func (k *checkpoints) due() bool {
	switch k.phase {
	case phaseNone:
		return false
	case phaseReads:
		return !k.w.e.readers.gate.busy()
	}
	return len(k.done) > 0
}

// finish continues a checkpoint. It reports whether it did anything.
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
		k.left, k.walPagesThen = passed.left, k.w.walPages
	}

	restarted, err := k.restart()
	if err == nil && !restarted && k.proceed() {
		return true, nil
	}
	k.end()

	k.w.walPages, k.w.mayShrink = 0, true
	if !restarted {
		// A read needs the WAL, or too many pages are left. The next try comes after half a WAL.
		k.w.walPages = checkpointPages / 2
		return true, err
	}
	return true, k.w.space.trimBallast()
}

// proceed makes a checkpoint wait for running reads, and then repeat the passes. It
// returns false if the checkpoint must end.
func (k *checkpoints) proceed() bool {
	gate := &k.w.e.readers.gate
	switch {
	case k.phase == phasePasses && gate.clock.Mono() >= k.pauseAt:
		k.phase = phaseReads
		gate.close(checkpointPause, k.w.e.inbox.signal)
		return true
	case k.phase == phaseReads && gate.isClosed() && !k.restIsSmall():
		k.run(phasePassesAlone)
		return true
	}
	return false
}

// end ends a checkpoint and opens the gate.
func (k *checkpoints) end() {
	gate := &k.w.e.readers.gate
	// The gate opened by its limit, so the reads did not end in time.
	if k.phase == phaseReads && !gate.isClosed() {
		k.pauseAt = gate.clock.Mono() + betweenPauses
	}
	k.phase = phaseNone
	gate.open()
}

// stop waits for running passes and ends the checkpoint.
func (k *checkpoints) stop() {
	if k.phase == phasePasses || k.phase == phasePassesAlone {
		// The result is ignored, because the caller closes the store or moves the WAL itself.
		<-k.done
	}
	k.end()
}

// restIsSmall reports whether few enough pages are left in the WAL for the writer to move them.
func (k *checkpoints) restIsSmall() bool {
	return k.left+k.w.walPages-k.walPagesThen <= checkpointPages
}

// restart moves the rest of the WAL and makes the next transaction write to its beginning. It
// returns false if too many pages are left or a read needs the WAL, because the writer must not
// wait in these cases.
func (k *checkpoints) restart() (bool, error) {
	if !k.restIsSmall() {
		return false, nil
	}
	c := k.w.c
	if err := c.Exec("PRAGMA busy_timeout = 0"); err != nil {
		return false, err
	}

	_, _, err := c.Checkpoint(sqliteconn.Restart)
	restarted := err == nil
	// A read needs the WAL, which is not a failure of the store.
	if sqliteconn.IsBusy(err) {
		err = nil
	}
	return restarted, errors.Join(err, c.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout)))
}
