package duly_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// scheduled is an engine with one schedule.
type scheduled struct {
	pushes
	duly.Scheduler
	schedule duly.Schedule
}

func (s *scheduled) GetSchedule(_ context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	if name != s.schedule.Name {
		return duly.ScheduleInfo{}, contract.NoSchedule(q, name)
	}
	return duly.ScheduleInfo{Schedule: s.schedule}, nil
}

// C17.130, C17.131.
func TestTriggerPushesARunOfTheSchedule(t *testing.T) {
	t.Parallel()
	e := &scheduled{schedule: duly.Schedule{
		Name: "nightly", Overlap: duly.OverlapSkip, Template: duly.Job{Body: []byte("b"), Headers: map[string]string{"a": "1"}},
	}}
	c := duly.NewClient(e, duly.ClientConfig{Namespace: "ns"})
	r, err := c.Trigger(t.Context(), "reports", "nightly")
	if err != nil || r.Status != duly.Created {
		t.Fatal(r, err)
	}

	job := e.calls[0][0]
	if _, ok := duly.ParseNumber(job.ID); !ok || job.ID != r.ID || !job.Made {
		t.Errorf("ID %q, made %v", job.ID, job.Made)
	}
	want := map[string]string{"a": "1", "duly-schedule": "nightly", "duly-trigger": "manual"}
	if !maps.Equal(job.Headers, want) || len(e.schedule.Template.Headers) != 1 {
		t.Errorf("headers %v, template %v", job.Headers, e.schedule.Template.Headers)
	}
	merge := duly.Merge{Key: "schedule:nightly", Mode: duly.MergeKeep, Until: duly.UntilDone}
	if job.Namespace != "ns" || job.Queue != "reports" || string(job.Body) != "b" || job.Merge != merge {
		t.Errorf("job %+v", job)
	}

	if _, err := c.Trigger(t.Context(), "reports", "weekly"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("an unknown schedule: %v", err)
	}
	e.failure = duly.ErrFull
	if _, err := c.Trigger(t.Context(), "reports", "nightly"); !errors.Is(err, duly.ErrFull) {
		t.Errorf("a push that fails: %v", err)
	}
	plain := duly.NewClient(&pushes{}, duly.ClientConfig{})
	if _, err := plain.Trigger(t.Context(), "reports", "nightly"); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("an engine without schedules: %v", err)
	}
}
