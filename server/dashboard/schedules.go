package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

const (
	// scheduledQueues and schedulesPerPage bound a page of schedules: its calls, and the schedules of each.
	scheduledQueues, schedulesPerPage = 3, 100
	// upcomingRuns is the number of runs that a page predicts, and maxPauseTicks that of the ticks of a pause.
	upcomingRuns, maxPauseTicks = 5, 1000
)

var scheduleActions = []action{
	{of: ofSchedule, name: "pause", done: "The schedule is paused.", run: onSchedule(duly.Scheduler.PauseSchedule)},
	{of: ofSchedule, name: "resume", done: "The schedule continues.", run: onSchedule(duly.Scheduler.ResumeSchedule)},
	{of: ofSchedule, name: "trigger", limited: contract.RightProduce, run: triggerSchedule},
	{
		of: ofSchedule, name: "delete", api: "DELETE " + ofSchedule.api, done: "The schedule is deleted.",
		question: ask("Delete the schedule {name}?"), effect: "Its runs stay.",
		run: func(ctx context.Context, c *Config, t *target) error {
			return c.Scheduler.DeleteSchedule(ctx, t.queue, t.name, 0)
		},
	},
}

func onSchedule(
	do func(duly.Scheduler, context.Context, duly.QueueRef, string) error,
) func(context.Context, *Config, *target) error {
	return func(ctx context.Context, c *Config, t *target) error { return do(c.Scheduler, ctx, t.queue, t.name) }
}

// triggerSchedule pushes a run, and links to its job, or to the one that it was merged into.
func triggerSchedule(ctx context.Context, cfg *Config, t *target) error {
	client := duly.NewClient(struct {
		contract.Engine
		duly.Scheduler
	}{cfg.Engine, cfg.Scheduler}, duly.ClientConfig{Namespace: t.queue.Namespace})
	run, err := client.Trigger(ctx, t.queue.Name, t.name)
	t.ids, t.text = []string{run.ID}, "The run is pushed."
	if run.Status == duly.Merged {
		t.text = "The run is merged into a job that waits or runs."
	}
	return err
}

// schedules lists the schedules of a namespace by queue. The look says which queues have some.
func (d *Dashboard) schedules(c *route.Call) error {
	from, cursor := c.Query("queue"), c.Query("cursor")
	look := d.feed.Look(c.Context(), contract.NamespaceOr(c.Namespace))
	if look.Err != nil {
		return look.Err
	}
	v, here := view.Schedules{}, path("n", c.Namespace, "schedules")
	if v.Now = d.cfg.Clock.Now(); from != "" {
		v.First = here
	}

	calls := 0
	for i := range look.Queues {
		name := look.Queues[i].Name
		if look.Queues[i].Stats.Schedules == 0 || name < from {
			continue
		}
		if calls == scheduledQueues || len(v.Rows) >= schedulesPerPage {
			v.Next = withQuery(here, "queue", name)
			break
		}
		if name != from {
			cursor = ""
		}
		calls++
		page, err := d.cfg.Scheduler.Schedules(c.Context(), duly.QueueRef{Namespace: c.Namespace, Name: name},
			duly.PageParams{Cursor: cursor, Limit: schedulesPerPage})
		if err != nil {
			return err
		}
		for _, s := range page.Schedules {
			v.Rows = append(v.Rows, view.ScheduleRow{Queue: name, Words: schedule.Words(s.Spec), ScheduleInfo: s})
		}
		if page.Next != "" {
			v.Next = withQuery(here, "queue", name, "cursor", page.Next)
			break
		}
	}

	if look.Next != "" {
		v.Notes = append(v.Notes, fmt.Sprintf("Only the schedules of the first %d queues are listed.", len(look.Queues)))
	}
	v.Links = d.formLink(c, &scheduleForm, "New schedule")
	v.Frame = also(d.frame(c, "Schedules"), "schedule list QUEUE", fmt.Sprintf("/v1/%s/queues/QUEUE/schedules", c.Namespace))
	return d.reply(c, http.StatusOK, "schedules.html", v)
}

// schedule shows a schedule with its next runs.
func (d *Dashboard) schedule(c *route.Call) error {
	t, now := targetOf(c, nil), d.cfg.Clock.Now()
	s, err := d.cfg.Scheduler.GetSchedule(c.Context(), t.queue, t.name)
	if err != nil {
		return err
	}

	hidden := []string{"name"}
	if d.cfg.HideBodies {
		hidden = append(hidden, "template")
	}
	v := view.Page{
		Up:     view.Link{Text: "Queue " + t.queue.Name, To: t.path(atQueue)},
		Notes:  []string{"Runs " + schedule.Words(s.Spec) + ", in the zone " + s.Zone + "."},
		Fields: shown(wire.ScheduleInfoForm.Append(nil, s), now, hidden...),
		Links:  d.formLink(c, &scheduleForm, "Change", "queue", t.queue.Name, "name", t.name),
	}
	if id := c.Query("job"); id != "" {
		v.Links = append(v.Links, view.Link{Text: "The run " + id, To: queuePath(c.Namespace, t.queue.Name, "j", id)})
	}
	runs := view.Table{Title: "Next runs", Columns: []string{"Tick", "Due", "From now"}, Empty: "There is no further tick."}
	name, text := "pause", "Pause"
	if s.Paused {
		name, text, runs.Title = "resume", "Resume", "Ticks if the schedule is resumed now"
		n := schedule.Passed(&s.Schedule, s.Next, now, maxPauseTicks)
		v.Notes = append(v.Notes, fmt.Sprintf("It is paused. Ticks of the pause that make no run: %d.", n))
	}
	for _, tick := range schedule.Upcoming(t.queue, &s.Schedule, now, upcomingRuns) {
		at := tick.At.Format("Mon 2006-01-02 15:04:05 -07:00")
		runs.Rows = append(runs.Rows, []view.Link{{Text: at}, {Text: moment(tick.Due)}, {Text: distance(tick.Due, now)}})
	}
	v.Tables = []view.Table{runs}

	v.Buttons = append(d.button(c, ofSchedule, name, text, ""), d.button(c, ofSchedule, "trigger", "Run now", "")...)
	v.Buttons = append(v.Buttons, d.button(c, ofSchedule, "delete", "Delete …", "schedules")...)
	v.Frame = also(d.frame(c, t.name), "schedule get "+t.queue.Name+" "+t.name, string(t.path(ofSchedule.api)))
	return d.reply(c, http.StatusOK, "page.html", v)
}

// scheduleForm creates or changes a schedule.
var scheduleForm = form{
	at: atNamespace + "/set/schedule", api: "PUT " + ofSchedule.api, access: auth.Produce, limited: contract.RightProduce,
	fields: wire.ScheduleForm.Describe(), params: []string{"queue", "name"}, word: "Save",
	command: "duly schedule put {queue} {name} SPEC BODY", open: openSchedule, read: readSchedule,
}

func openSchedule(d *Dashboard, c *route.Call, t *target, v *view.Form) (url.Values, error) {
	v.Title, v.Up = "New schedule", view.Link{Text: "Schedules", To: t.path(atNamespace + "/schedules")}
	if c.R.Method != http.MethodGet || t.queue.Name == "" || t.name == "" {
		return url.Values{}, nil
	}
	info, err := d.cfg.Scheduler.GetSchedule(c.Context(), t.queue, t.name)
	if err == nil {
		err = d.checkShown(info.Template.Body)
	}
	v.Title = "Change " + t.name
	return valuesOf(wire.ScheduleForm.Append(nil, info.Schedule)), err
}

func readSchedule(d *Dashboard, t *target, request string) (func(context.Context) (string, error), error) {
	s, err := wire.ScheduleForm.ReadRequest(request)
	s.Name, t.of = t.name, ofSchedule
	if err == nil {
		err = d.checkDestinations("template.", "callback", s.Template.Callback, s.Template.OnDone, s.Template.OnDead)
	}
	return func(ctx context.Context) (string, error) {
		put, err := d.cfg.Scheduler.PutSchedule(ctx, t.queue, s)
		return fmt.Sprintf("The schedule is %s.", put.Status), err
	}, err
}
