package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// workedView is one line of `duly work --json`: a delivery that has ended.
type workedView struct {
	At      string     `json:"at"`
	ID      string     `json:"id"`
	Queue   string     `json:"queue"`
	Attempt int        `json:"attempt"`
	As      string     `json:"as"`   // ack, nack, release or bury; canceled for a job that was removed while it ran
	Exit    int        `json:"exit"` // the command's status; -1 for a signal, or where it did not run
	Took    string     `json:"took"`
	State   string     `json:"state,omitempty"` // of a job that is not done: dead, delayed or ready
	Due     string     `json:"due,omitempty"`   // when the job is due again
	Error   *errorView `json:"error,omitempty"` // why the outcome did not count

	job  duly.QueueRef
	then string // State as text, see afterwards
}

// jobLog prints a line for every delivery that has ended. The worker's
// goroutines hand the lines to one of its own, which alone writes.
type jobLog struct {
	p      *printer
	stop   func() // the worker, once nobody reads any more
	engine duly.Inspector

	mu   sync.Mutex
	runs map[duly.Receipt]run

	lines chan workedView
	done  chan struct{}
	once  sync.Once
	err   error // of writing; read after done
}

// run is how a command ended.
type run struct {
	exit     int
	took     time.Duration
	canceled bool // because the job was removed
}

func newJobLog(p *printer, stop func(), engine duly.Inspector) *jobLog {
	l := &jobLog{
		p: p, stop: stop, engine: engine,
		runs: map[duly.Receipt]run{}, lines: make(chan workedView, 1024), done: make(chan struct{}),
	}
	go l.write()
	return l
}

// ran notes how the command of a delivery ended.
func (l *jobLog) ran(d *worker.Delivery, r run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[d.Receipt] = r
}

// asCanceled is how the log names the end of a delivery whose job was removed.
const asCanceled = "canceled"

// settled is called by the worker when the engine has answered.
func (l *jobLog) settled(d *worker.Delivery, as duly.Settlement, err error) {
	l.mu.Lock()
	r, ran := l.runs[d.Receipt]
	delete(l.runs, d.Receipt)
	l.mu.Unlock()
	if !ran {
		r.exit = -1
	}
	v := workedView{
		At: stamp(l.p.now()), ID: d.ID, Queue: d.Queue, Attempt: d.Attempt,
		As: as.String(), Exit: r.exit, Took: roughly(r.took),
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

func (l *jobLog) write() {
	defer close(l.done)
	for v := range l.lines {
		if l.err != nil {
			continue
		}
		l.follow(&v)
		l.print(&v)
		if l.err = l.p.flush(); l.err != nil {
			l.stop()
		}
	}
}

// followTime bounds the call by which the log reads a job's state.
const followTime = 2 * time.Second

// follow reads the state of a job that is not done.
func (l *jobLog) follow(v *workedView) {
	if v.As == duly.Ack.String() || v.As == asCanceled || v.Error != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), followTime)
	defer cancel()
	j, err := l.engine.Get(ctx, v.job, v.ID)
	if err != nil {
		return // the job was deleted, or the next line reports the fault
	}

	v.State, v.then = j.State.String(), afterwards(&j, l.p.now())
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
	text := ""
	if v.Error != nil {
		text = "  " + string(v.Error.Code)
	}
	then := ""
	if v.then != "" {
		then = "  " + v.then
	}
	exit := "no exit status" // ended by a signal, or never started
	if v.Exit >= 0 {
		exit = fmt.Sprintf("exit %d", v.Exit)
	}
	l.p.printf("%s  %s  %s  %s  attempt %d  %s  %s%s%s\n", l.p.paint(dim, v.At), l.p.paint(s, v.As),
		v.Queue, v.ID, v.Attempt, exit, v.Took, then, l.p.paint(red, text))
}

// close ends the log after its last line. It may be repeated.
func (l *jobLog) close() error {
	l.once.Do(func() { close(l.lines) })
	<-l.done
	return l.err
}
