package redisengine

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// What is seen at a glance to be plain is what planning finds valid and plain,
// and nothing else is.
func TestAGlanceSeesWhatPlanningFinds(t *testing.T) {
	t.Parallel()
	e := &Engine{cfg: Config{MaxBody: 4096, Clock: clock.NewFake()}}
	value := packConfig(e.nextVersion(""), duly.DefaultQueueConfig(), false)
	q, err := e.readQueue(duly.Q("q"), value)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(j *duly.Job)
		glance bool
	}{
		"nothing":                    {func(*duly.Job) {}, true},
		"an ID that its client made": {func(j *duly.Job) { j.ID, j.Made = duly.MakeID(j), true }, true},
		"a delay":                    {func(j *duly.Job) { j.Delay = 290 * 365 * 24 * time.Hour }, true},
		"a due moment":               {func(j *duly.Job) { j.Due = duly.MaxTime }, true},
		"a due moment before 1970":   {func(j *duly.Job) { j.Due = time.Unix(-1e9, 0) }, true},
		"the longest body":           {func(j *duly.Job) { j.Body = make([]byte, bigBody) }, true},
		"its namespace":              {func(j *duly.Job) { j.Namespace = duly.DefaultNamespace }, true},

		"a body beside its record":  {func(j *duly.Job) { j.Body = make([]byte, bigBody+1) }, false},
		"an ID of its own":          {func(j *duly.Job) { j.ID = "a" }, false},
		"an ID that is a repeat's":  {func(j *duly.Job) { j.ID = duly.MakeID(j) }, false},
		"an ID that nobody made":    {func(j *duly.Job) { j.ID, j.Made = "a", true }, false},
		"an ID that is none":        {func(j *duly.Job) { j.ID, j.Made = "/", true }, false},
		"headers":                   {func(j *duly.Job) { j.Headers = map[string]string{"A": "b"} }, false},
		"a negative delay":          {func(j *duly.Job) { j.Delay = -1 }, false},
		"a delay and a due moment":  {func(j *duly.Job) { j.Delay, j.Due = 1, duly.MaxTime }, false},
		"a due moment out of range": {func(j *duly.Job) { j.Due = duly.MaxTime.Add(1) }, false},
		"a priority":                {func(j *duly.Job) { j.Priority = 1 }, false},
		"tries":                     {func(j *duly.Job) { j.Tries = 1 }, false},
		"stalls":                    {func(j *duly.Job) { j.MaxStalls = duly.None }, false},
		"a backoff":                 {func(j *duly.Job) { j.Backoff = "no" }, false},
		"a TTL":                     {func(j *duly.Job) { j.TTL = time.Hour }, false},
		"a lease":                   {func(j *duly.Job) { j.Lease = time.Hour }, false},
		"retaining":                 {func(j *duly.Job) { j.Retain = time.Hour }, false},
		"an order key":              {func(j *duly.Job) { j.OrderKey = "k" }, false},
		"a merge key":               {func(j *duly.Job) { j.Merge.Key = "k" }, false},
		"a callback":                {func(j *duly.Job) { j.Callback = "http://host" }, false},
	} {
		jobs := []duly.Job{{Queue: "q"}}
		c.change(&jobs[0])
		p := newPushing(e, q, jobs, make([]duly.PushResult, 1))
		item := pushItem{job: &jobs[0], id: jobs[0].ID}
		if jobs[0].Made {
			item.number, item.named = duly.ParseNumber(item.id)
		}
		if got := p.glance(&item); got != c.glance {
			t.Errorf("%s: plain at a glance is %t, want %t", what, got, c.glance)
		}
		if planned, err := p.plan(&jobs[0]); c.glance && (err != nil || !isBare(&planned, "")) {
			t.Errorf("%s: seen to be plain, and planning finds %+v, %v", what, planned, err)
		}
	}

	usual, cfg := q, duly.DefaultQueueConfig()
	cfg.Defaults.Tries = 3
	if q, err = e.readQueue(duly.Q("q"), packConfig(e.nextVersion(""), cfg, false)); err != nil {
		t.Fatal(err)
	}
	jobs := []duly.Job{{Queue: "q"}}
	if newPushing(e, q, jobs, make([]duly.PushResult, 1)).glance(&pushItem{job: &jobs[0]}) {
		t.Error("a job of a queue with other defaults is seen to be plain")
	}

	e.cfg.MaxBody = 100
	jobs[0].Body = make([]byte, 101)
	if newPushing(e, usual, jobs, make([]duly.PushResult, 1)).glance(&pushItem{job: &jobs[0]}) {
		t.Error("a job whose body is too long is seen to be plain")
	}
}
