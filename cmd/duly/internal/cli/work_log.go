package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/worker"
)

// workedView is a line of `duly work --json`: the end of a delivery.
type workedView struct {
	At      string     `json:"at"`
	ID      string     `json:"id"`
	Queue   string     `json:"queue"`
	Attempt int        `json:"attempt"`
	As      string     `json:"as"`   // ack, nack, release, bury, or canceled if the job was removed
	Exit    int        `json:"exit"` // the exit status; -1 after a signal, or if the command did not run
	Took    string     `json:"took"`
	State   string     `json:"state,omitempty"` // of a job that is not done: dead, delayed or ready
	Due     string     `json:"due,omitempty"`   // when the job is due again
	Error   *errorView `json:"error,omitempty"` // of the settle

	job  duly.QueueRef
	next string // State as text, from nextStateText
}

// jobLog prints a line at the end of every delivery. The worker's goroutines send the
// lines to one goroutine, which prints them.
type jobLog struct {
	p      *printer
	stop   func() // stops the worker after an error of writing
	engine contract.Inspector

	mu      sync.Mutex
	results map[duly.Receipt]commandResult

	lines chan workedView
	done  chan struct{}
	once  sync.Once
	err   error // of writing; read after done
}

// commandResult is the result of a command.
type commandResult struct {
	exit     int
	took     time.Duration
	canceled bool // the job was removed
}

func newJobLog(p *printer, stop func(), engine contract.Inspector) *jobLog {
	l := &jobLog{
		p: p, stop: stop, engine: engine,
		results: map[duly.Receipt]commandResult{}, lines: make(chan workedView, 1024), done: make(chan struct{}),
	}
	go l.write()
	return l
}

// recordResult stores the result of a delivery's command.
func (l *jobLog) recordResult(d *worker.Delivery, r commandResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[d.Receipt] = r
}

// asCanceled is the settlement that the log prints for a job that was removed.
const asCanceled = "canceled"

// settled adds a line. The worker calls it after a settle.
func (l *jobLog) settled(d *worker.Delivery, as duly.Settlement, err error) {
	// A delivery whose command was never started has no result.
	l.mu.Lock()
	r, ran := l.results[d.Receipt]
	delete(l.results, d.Receipt)
	l.mu.Unlock()

	if !ran {
		// An exit status of 0 would look like a success.
		r.exit = -1
	}
	v := workedView{
		At: stamp(l.p.now()), ID: d.ID, Queue: d.Queue, Attempt: d.Attempt,
		As: as.String(), Exit: r.exit, Took: shortDuration(r.took),
		job: duly.QueueRef{Namespace: d.Namespace, Name: d.Queue},
	}
	switch {
	case r.canceled && errors.Is(err, duly.ErrLeaseLost):
		v.As = asCanceled
	case err != nil:
		v.Error = &errorView{Code: duly.CodeOf(err), Detail: oneLine(err.Error())}
	}
	l.lines <- v
}

// write prints the lines until close. After an error it drops them.
func (l *jobLog) write() {
	defer close(l.done)
	for v := range l.lines {
		// The lines are still received, or the worker's goroutines would block.
		if l.err != nil {
			continue
		}
		l.readState(&v)
		l.print(&v)
		if l.err = l.p.flush(); l.err != nil {
			// Nobody reads the log any more, so the worker stops.
			l.stop()
		}
	}
}

// readStateTimeout limits the call that reads a job's state.
const readStateTimeout = 2 * time.Second

// readState sets the state of a job that is not done.
func (l *jobLog) readState(v *workedView) {
	// These results are final or not known, so they need no call.
	if v.As == duly.Ack.String() || v.As == asCanceled || v.Error != nil {
		return
	}

	// The context of the worker may have ended while it drains.
	ctx, cancel := context.WithTimeout(context.Background(), readStateTimeout)
	defer cancel()
	j, err := l.engine.Get(ctx, v.job, v.ID)
	if err != nil {
		return // the job was deleted, or the engine is unavailable
	}

	v.State, v.next = j.State.String(), nextStateOf(ctx, l.engine, v.job, &j, l.p.now)
	if j.State != duly.StateDead {
		v.Due = stamp(j.Due)
	}
}

func (l *jobLog) print(v *workedView) {
	if l.p.json {
		l.err = l.p.value(v)
		return
	}
	s := green
	switch {
	case v.As == duly.Nack.String() || v.As == duly.Bury.String() || v.Error != nil:
		s = red
	case v.As == asCanceled:
		s = yellow
	}

	code, next := "", ""
	if v.Error != nil {
		code = "  " + string(v.Error.Code)
	}
	if v.next != "" {
		next = "  " + v.next
	}
	exit := "no exit status" // a signal killed it, or it was never started
	if v.Exit >= 0 {
		exit = fmt.Sprintf("exit %d", v.Exit)
	}
	l.p.printf("%s  %s  %s  %s  attempt %d  %s  %s%s%s\n", l.p.paint(dim, v.At), l.p.paint(s, v.As),
		v.Queue, v.ID, v.Attempt, exit, v.Took, next, l.p.paint(red, code))
}

// close prints the remaining lines and ends the log. It may be called twice.
func (l *jobLog) close() error {
	// A second close of the channel would panic.
	l.once.Do(func() { close(l.lines) })
	<-l.done
	return l.err
}
