package native

import (
	"context"
	"net/http"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

const (
	schedulesPath = "/v1/{namespace}/queues/{queue}/schedules"
	schedulePath  = schedulesPath + "/{name}"
)

func (a *API) scheduleRoutes() []route.Route {
	return []route.Route{
		{
			Method: "PUT", Path: schedulePath, Access: auth.Produce, LimitedBy: produce, MaxBody: idsBody,
			Handler: a.onSchedules(a.putSchedule), Doc: putScheduleDoc,
		},
		{
			Method: "GET", Path: schedulePath, Access: auth.Either,
			Handler: a.onSchedules(a.schedule), Doc: getScheduleDoc,
		},
		{
			Method: "GET", Path: schedulesPath, Access: auth.Either, Query: pageQuery,
			Handler: a.onSchedules(a.schedules), Doc: listSchedulesDoc,
		},

		{
			Method: "POST", Path: schedulePath + "/pause", Access: auth.Produce, MaxBody: noBody,
			Handler: a.onSchedules(changeSchedule(duly.Scheduler.PauseSchedule)), Doc: pauseScheduleDoc,
		},
		{
			Method: "POST", Path: schedulePath + "/resume", Access: auth.Produce, MaxBody: noBody,
			Handler: a.onSchedules(changeSchedule(duly.Scheduler.ResumeSchedule)), Doc: resumeScheduleDoc,
		},
		{
			Method: "POST", Path: schedulePath + "/trigger", Access: auth.Produce, LimitedBy: produce, MaxBody: noBody,
			Handler: a.onSchedules(a.triggerSchedule), Doc: triggerScheduleDoc,
		},
		{
			Method: "DELETE", Path: schedulePath, Access: auth.Produce, MaxBody: noBody, Query: []string{"version"},
			Handler: a.onSchedules(a.deleteSchedule), Doc: deleteScheduleDoc,
		},
	}
}

// scheduleHandler serves a route of the schedules of a queue. name is empty in the list.
type scheduleHandler func(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, name string) error

// onSchedules returns a handler for the schedule that the path names.
func (a *API) onSchedules(h scheduleHandler) route.Handler {
	return func(c *route.Call) error {
		if a.cfg.Scheduler == nil {
			return contract.Errorf(duly.CodeUnsupported,
				"the engine of this server has no schedules; use a server whose engine has them")
		}
		return h(c, a.cfg.Scheduler, queue(c), c.PathValue("name"))
	}
}

func (a *API) putSchedule(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, name string) error {
	s, err := route.Read(c, wire.ScheduleForm.ReadRequest)
	if err != nil {
		return err
	}
	s.Name = name
	t := &s.Template
	// A schedule with a bad destination would push jobs that fail at every tick.
	if err := a.checkDestinations("callback", t.Callback, t.OnDone, t.OnDead); err != nil {
		return err
	}

	put, err := schedules.PutSchedule(c.Context(), q, s)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.SchedulePutForm.Append(c.Out(), put))
}

func (a *API) schedule(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, name string) error {
	info, err := schedules.GetSchedule(c.Context(), q, name)
	if err != nil {
		return err
	}
	// A single schedule is small, so its memory is reserved after the read.
	size := wire.SizeOfSchedules(duly.SchedulePage{Schedules: []duly.ScheduleInfo{info}})
	if err := c.ReserveMemory(int64(len(info.Template.Body) + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.ScheduleInfoForm.Append(c.Room(size), info))
}

// maxSchedules bounds the schedules of one answer, because each may have a body of 64 KiB.
const maxSchedules = 100

func (a *API) schedules(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, _ string) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	// The validation sets the default of the limit, which bounds the memory.
	if err := contract.ValidateSchedules(q, &p); err != nil {
		return err
	}
	p.Limit = min(p.Limit, maxSchedules)
	if err := c.ReserveMemory(int64(p.Limit) * duly.MaxTemplateBody); err != nil {
		return err
	}
	page, err := schedules.Schedules(c.Context(), q, p)
	if err != nil {
		return err
	}

	// The page is smaller than its bound in most cases, so its memory is reserved again.
	c.ReleaseMemory()
	bodies := 0
	for i := range page.Schedules {
		bodies += len(page.Schedules[i].Template.Body)
	}
	size := wire.SizeOfSchedules(page)
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.SchedulesForm.Append(c.Room(size), page))
}

// changeSchedule returns the handler of a pause or a resume.
func changeSchedule(change func(duly.Scheduler, context.Context, duly.QueueRef, string) error) scheduleHandler {
	return func(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, name string) error {
		if err := empty(c); err != nil {
			return err
		}
		if err := change(schedules, c.Context(), q, name); err != nil {
			return err
		}
		return c.Empty()
	}
}

// triggerSchedule pushes a run through the engine that the routes of pushes use.
func (a *API) triggerSchedule(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, name string) error {
	if err := empty(c); err != nil {
		return err
	}
	// The run uses the stored template, so the caller needs no right to read the template.
	info, err := schedules.GetSchedule(c.Context(), q, name)
	if err != nil {
		return err
	}

	job := info.Run()
	job.Namespace, job.Queue = q.Namespace, q.Name
	job.Headers[duly.HeaderTrigger] = "manual"
	results, err := a.engine.Push(c.Context(), []duly.Job{job})
	if err == nil {
		// A single job has no list of results, so its error becomes the answer.
		err = results[0].Err
	}
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PushedOneForm.Append(c.Out(), results[0]))
}

func (a *API) deleteSchedule(c *route.Call, schedules duly.Scheduler, q duly.QueueRef, name string) error {
	if err := empty(c); err != nil {
		return err
	}
	var version int64
	if text := c.Query("version"); text != "" {
		var err error
		if version, err = strconv.ParseInt(text, 10, 64); err != nil || version <= 0 {
			return contract.Invalid("version", "must be the version of the schedule; leave version out to delete any version")
		}
	}

	if err := schedules.DeleteSchedule(c.Context(), q, name, version); err != nil {
		return err
	}
	return c.Empty()
}
