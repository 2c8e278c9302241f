package jobs

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestPlainJobMatchesPlanning checks that isPlain accepts only jobs that planning finds valid and
// bare.
func TestPlainJobMatchesPlanning(t *testing.T) {
	t.Parallel()
	s := &store.Store{Settings: store.Settings{MaxBody: 4096, Clock: clock.NewFake()}}
	e := &Jobs{Catalog: catalog.New(s, nil)}
	value := catalog.PackConfig(e.NextVersion(""), contract.DefaultQueueConfig(), false)
	q, err := e.ReadQueue(duly.Q("q"), value)
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
		"the longest body":           {func(j *duly.Job) { j.Body = make([]byte, codec.BigBody) }, true},
		"its namespace":              {func(j *duly.Job) { j.Namespace = duly.DefaultNamespace }, true},

		"a body beside its record":  {func(j *duly.Job) { j.Body = make([]byte, codec.BigBody+1) }, false},
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
		p := newQueuePush(e, q, jobs, make([]duly.PushResult, 1))
		item := pushItem{PushJob: codec.PushJob{Job: &jobs[0], ID: jobs[0].ID}}
		if jobs[0].Made {
			item.Number, item.Named = duly.ParseNumber(item.ID)
		}
		if got := p.isPlain(&item); got != c.glance {
			t.Errorf("%s: isPlain returns %t, want %t", what, got, c.glance)
		}
		if planned, err := p.planJob(&jobs[0]); c.glance && (err != nil || !codec.IsBare(&planned, "")) {
			t.Errorf("%s: isPlain returns true, but planning returns %+v, %v", what, planned, err)
		}
	}

	usual, cfg := q, contract.DefaultQueueConfig()
	cfg.Defaults.Tries = 3
	if q, err = e.ReadQueue(duly.Q("q"), catalog.PackConfig(e.NextVersion(""), cfg, false)); err != nil {
		t.Fatal(err)
	}
	jobs := []duly.Job{{Queue: "q"}}
	if newQueuePush(e, q, jobs, make([]duly.PushResult, 1)).isPlain(&pushItem{PushJob: codec.PushJob{Job: &jobs[0]}}) {
		t.Error("a job of a queue with other defaults is plain")
	}

	s.Settings.MaxBody = 100
	jobs[0].Body = make([]byte, 101)
	if newQueuePush(e, usual, jobs, make([]duly.PushResult, 1)).isPlain(&pushItem{PushJob: codec.PushJob{Job: &jobs[0]}}) {
		t.Error("a job whose body is too long is plain")
	}
}
