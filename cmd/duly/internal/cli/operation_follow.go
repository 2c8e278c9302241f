package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// followEvery is the time between two requests for the progress of an operation.
const followEvery = 500 * time.Millisecond

// followOperation shows the progress of an operation until it has ended or needs an operator. With --json it prints a
// line per change.
func (a *app) followOperation(ctx context.Context, p *printer, operations operationStore, id string) error {
	bar := a.newProgress("operation", 0)
	defer bar.end()
	var shown contract.Operation
	for first := true; ; first = false {
		o, err := operations.Get(ctx, id)
		if ctx.Err() != nil {
			return a.leaveOperation(ctx, id)
		}
		// The server may restart meanwhile. It shows the operation as interrupted then.
		if code := duly.CodeOf(err); err != nil && (first || code != duly.CodeUnavailable && code != duly.CodeClosed) {
			return err
		}

		if err == nil {
			o.Answers = nil
			bar.set(o.Taken, o.Found, 0)
			if bar == nil && a.showsProgress(p, &shown, &o) {
				if err := p.flush(); err != nil {
					return err
				}
			}
			shown = o
			if needsNobody := o.State == contract.OperationQueued || o.State == contract.OperationRunning ||
				o.State == contract.OperationWaiting && o.Canary != nil && o.Canary.Then == contract.CanaryContinue; !needsNobody {
				bar.end()
				return a.endOfOperation(p, &o)
			}
		}
		if clock.Sleep(ctx, a.env.Clock, followEvery) != nil {
			return a.leaveOperation(ctx, id)
		}
	}
}

// showsProgress prints the progress if there is no bar: as JSON at each change, else at each new state and error.
func (a *app) showsProgress(p *printer, shown, o *contract.Operation) bool {
	// The last state is printed with all fields anyway.
	same := shown.State == o.State && shown.Error == o.Error
	switch {
	case p.json && !(same && shown.Taken == o.Taken && shown.Found == o.Found) && !o.State.Ended():
		p.operation(o)
		return true
	case !p.json && !same && !o.State.Ended():
		text := fmt.Sprintf("%s: %s of %s jobs", o.State, countText(o.Taken), countText(o.Found))
		if problem := noticeOf(o); problem != "" {
			text += ", " + problem
		}
		a.note("%s", text)
	}
	return false
}

// endOfOperation prints an operation that has ended or needs an operator. An operation that has not reached its end by
// itself is an error.
func (a *app) endOfOperation(p *printer, o *contract.Operation) error {
	p.operation(o)
	if err := p.flush(); err != nil {
		return err
	}
	command := a.program() + " operation "
	switch o.State {
	case contract.OperationDone:
		if o.Failed > 0 {
			return errReported
		}
		return nil
	case contract.OperationWaiting, contract.OperationPaused, contract.OperationInterrupted:
		a.noteOnTerminal("to continue it: %scontinue %s; to end it: %sstop %s", command, o.ID, command, o.ID)
		return nil
	}
	return errReported
}

// leaveOperation ends a command that was interrupted while it followed an operation.
func (a *app) leaveOperation(ctx context.Context, id string) error {
	a.noteOnTerminal("the operation continues without this command; to end it: %s operation stop %s", a.program(), id)
	return ctx.Err()
}
