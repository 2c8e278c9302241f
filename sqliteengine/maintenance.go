package sqliteengine

import (
	"strconv"

	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// maintain runs one slice of maintenance while no caller waits. It reports whether there may be
// more work.
func (w *writer) maintain() bool {
	if w.c == nil {
		return false
	}
	again, err := w.maintainSlice()
	if err != nil {
		// retried only after the next transaction: on a full disk the WAL must not take the last space
		w.backgroundError(err)
		return false
	}
	if again {
		w.lastWarning = ""
	}
	return again
}

// backgroundError handles an error of maintenance, which has no caller.
func (w *writer) backgroundError(err error) {
	if w.mustReopen(err) {
		w.fail(err)
		return
	}
	// A checkpoint fails as busy if a transaction ends at the same moment. It is repeated, so the
	// error is not logged.
	if !sqliteconn.IsBusy(err) {
		w.warnOnce(err)
	}
}

// warnOnce logs an error of maintenance, unless the last log line was about the same error.
func (w *writer) warnOnce(err error) {
	if text := err.Error(); w.failure == nil && text != w.lastWarning {
		w.lastWarning = text
		w.log.Warn("maintenance of the store has failed and will be repeated", "path", w.e.cfg.Path, "error", err)
	}
}

// maintainSlice runs one slice of maintenance.
func (w *writer) maintainSlice() (again bool, err error) {
	if w.reclaim() {
		return true, nil
	}
	w.checkpoints.start()
	if ended, err := w.checkpoints.finish(); ended || err != nil {
		return true, err
	}
	if w.graves {
		return true, w.emptyGrave()
	}
	if w.mayShrink {
		return true, w.shrink()
	}
	return false, nil
}

// shrink returns a slice of free pages to the disk while a quarter of the file is
// free.
func (w *writer) shrink() error {
	free, err := w.pragma("PRAGMA freelist_count")
	if err != nil {
		return err
	}
	pages, err := w.pragma("PRAGMA page_count")
	if err != nil {
		return err
	}
	if w.mayShrink = free > keptFreePages && free > pages/4; !w.mayShrink {
		return nil
	}
	return w.vacuumSlice("vacuum_slice")
}

// vacuumSlice runs a statement that returns free pages to the disk.
func (w *writer) vacuumSlice(name string) error {
	s := w.c.stmt(name)
	for {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			w.walPages += w.c.PagesWritten()
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

// emptyGrave deletes a slice of the rows of a destroyed queue.
func (w *writer) emptyGrave() error {
	return w.runTx([]*op{{run: func(t *tx) error {
		s := t.stmt("grave_next")
		if _, err := s.Step(); err != nil {
			return err
		}

		empty, id := s.ColNull(0), s.ColInt(0)
		s.Reset()
		if w.graves = !empty; empty {
			w.mayShrink = true
			return nil
		}

		// A bounded number of rows is deleted from each table, so that callers wait only briefly.
		left := 0
		for _, name := range [...]string{"remains_jobs", "remains_bodies", "remains_aliases", "remains_heads",
			"remains_merges", "remains_replaceable", "remains_expiries",
			"remains_schedules", "remains_unreadable", "remains_messages", "remains_delayed", "remains_seen"} {
			n, err := t.stmt(name).Int(1, id).Int(2, stepBound).Run()
			if err != nil {
				return err
			}
			left += n
		}

		// The grave stays until a run finds all tables empty.
		if left > 0 {
			return nil
		}

		_, err := t.stmt("grave_drop").Int(1, id).Run()
		return err
	}}})
}
