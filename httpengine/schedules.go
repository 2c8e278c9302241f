package httpengine

import (
	"context"
	"net/url"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

var _ duly.Scheduler = (*Engine)(nil)

// beginSchedule is like begin, for a call about one schedule. It returns the path of the schedule.
func (e *Engine) beginSchedule(q duly.QueueRef, name string) (path string, err error) {
	if err := e.begin(q.Namespace); err != nil {
		return "", err
	}
	if err := contract.ValidateScheduleName(q, name); err != nil {
		e.calls.Done()
		return "", err
	}
	return e.queuePath(q) + "/schedules/" + url.PathEscape(name), nil
}

// PutSchedule implements duly.Scheduler. The schedule is also checked here, because the form of the
// request has no fields for values that a template must not have.
func (e *Engine) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (duly.SchedulePut, error) {
	if err := e.begin(q.Namespace); err != nil {
		return duly.SchedulePut{}, err
	}
	defer e.calls.Done()
	if err := contract.ValidateSchedule(q, &s, duly.MaxMaxBody); err != nil {
		return duly.SchedulePut{}, err
	}

	path := e.queuePath(q) + "/schedules/" + url.PathEscape(s.Name)
	r := request{method: "PUT", path: path, body: wire.ScheduleForm.Append(nil, s)}
	return change(ctx, e, r, wire.SchedulePutForm.ReadAnswer)
}

// GetSchedule implements duly.Scheduler.
func (e *Engine) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	path, err := e.beginSchedule(q, name)
	if err != nil {
		return duly.ScheduleInfo{}, err
	}
	defer e.calls.Done()
	return fetch(ctx, e.link, request{method: "GET", path: path, max: maxJobs}, wire.ScheduleInfoForm.ReadAnswer)
}

// Schedules implements duly.Scheduler.
func (e *Engine) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	if err := e.begin(q.Namespace); err != nil {
		return duly.SchedulePage{}, err
	}
	defer e.calls.Done()
	if err := contract.ValidateSchedules(q, &p); err != nil {
		return duly.SchedulePage{}, err
	}
	query, err := page(p)
	if err != nil {
		return duly.SchedulePage{}, err
	}

	r := request{method: "GET", path: e.queuePath(q) + "/schedules", query: query, max: maxJobs}
	return fetch(ctx, e.link, r, wire.SchedulesForm.ReadAnswer)
}

// DeleteSchedule implements duly.Scheduler.
func (e *Engine) DeleteSchedule(ctx context.Context, q duly.QueueRef, name string, version int64) error {
	r := request{method: "DELETE"}
	if version != 0 {
		r.query = url.Values{"version": {strconv.FormatInt(version, 10)}}
	}
	return e.onSchedule(ctx, q, name, r)
}

// PauseSchedule implements duly.Scheduler.
func (e *Engine) PauseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return e.onSchedule(ctx, q, name, request{method: "POST", path: "/pause"})
}

// ResumeSchedule implements duly.Scheduler.
func (e *Engine) ResumeSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return e.onSchedule(ctx, q, name, request{method: "POST", path: "/resume"})
}

// onSchedule sends a request whose answer has no result. It appends the path in r to the path of
// the schedule.
func (e *Engine) onSchedule(ctx context.Context, q duly.QueueRef, name string, r request) error {
	path, err := e.beginSchedule(q, name)
	if err != nil {
		return err
	}
	defer e.calls.Done()
	r.path = path + r.path
	return e.changeOnly(ctx, r)
}
