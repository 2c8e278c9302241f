package enginetest

import (
	"fmt"

	"github.com/dulymq/duly/contract"
)

// moveAction is a step of a move of a schedule.
type moveAction string

const (
	holdSchedule    moveAction = "hold"
	releaseSchedule moveAction = "release"
	dropSchedule    moveAction = "drop"
	copySchedule    moveAction = "copy"
)

// moveScheduleOp makes a step of a move. The copy goes to another queue of the same engine.
type moveScheduleOp struct {
	At, To queueSpec
	Name   int
	Action moveAction
}

func (o moveScheduleOp) play(p *pair) {
	ref, name, count := o.At.ref(), scriptSchedules[o.Name], p.counting()
	p.both(fmt.Sprintf("%s schedule %s", o.Action, name), func(s side) (text string, err error) {
		m := moverOf(s.in(ref.Namespace), s.maintainer)
		switch o.Action {
		case releaseSchedule:
			err = m.ReleaseSchedule(p.ctx, ref, name)
		case dropSchedule:
			err = m.DropSchedule(p.ctx, ref, name)
		default:
			var r contract.ScheduleRecord
			if r, err = m.HoldSchedule(p.ctx, ref, name); err == nil && o.Action == copySchedule {
				r.Queue = o.To.ref()
				r, err = m.ImportSchedule(p.ctx, r)
			}
			if err == nil {
				text = fmt.Sprintf("held %t %s", r.Held, scheduleText(r.Info()))
			}
		}
		count(string(o.Action) + " " + outcome("ok", err))
		return text, err
	})
	p.getSchedule(o.At, name)
	p.getSchedule(o.To, name)
}
