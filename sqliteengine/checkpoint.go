package sqliteengine

import (
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
	// keptPages is how many free pages are not worth the work: 2 MiB.
	keptPages = 256
)

// checkpoints moves the log into the file beside the writer, on a connection of
// its own. While it works the writer goes on adding to the log, so it takes
// several passes, each over what the one before has left; the last bit is the
// writer's own, between two transactions, and the log then begins anew.
type checkpoints struct {
	w    *writer
	busy bool
	done chan error // holds the result of one run
}

// start begins a checkpoint if the log is long enough and none is under way. A
// store that has failed begins none: its log is written again first.
func (k *checkpoints) start() {
	if k.busy || k.w.pages < logPages || k.w.c == nil {
		return
	}
	k.busy = true
	go k.run()
}

func (k *checkpoints) run() {
	k.done <- k.passes()
	k.w.e.inbox.ring()
}

func (k *checkpoints) passes() error {
	c, err := k.w.e.connect(sq.ReadWrite)
	if err != nil { // as a text: it says nothing about what is on the disk
		return fmt.Errorf("sqliteengine: no connection for a checkpoint: %v", err)
	}
	defer c.close()
	for range maxPasses {
		begun := k.w.clock.Mono()
		log, moved, err := c.Checkpoint(sq.Passive)
		if err != nil {
			return err
		}
		if log == moved || k.w.clock.Mono()-begun < shortPass {
			return nil
		}
	}
	return nil
}

// finish ends a checkpoint that has done its part; false if there is none.
func (k *checkpoints) finish() (bool, error) {
	if !k.busy {
		return false, nil
	}
	select {
	case err := <-k.done:
		k.busy = false
		if err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	log, moved, err := k.w.c.Checkpoint(sq.Passive)
	if k.w.pages = 0; log != moved {
		k.w.pages = logPages / 2 // a reader needs the log as it is: again in a while
	}
	if err == nil && log == moved {
		err = k.w.room.trim()
	}
	k.w.vacuum = true
	return true, err
}

// stop waits for a checkpoint that is under way.
func (k *checkpoints) stop() {
	if k.busy {
		<-k.done
		k.busy = false
	}
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
		for _, name := range [...]string{"bury_jobs", "bury_bodies", "bury_aliases", "bury_heads", "bury_merges", "bury_replaceable", "bury_expiries"} {
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
