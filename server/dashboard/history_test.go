package dashboard

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
)

// surveyed is an engine that counts its surveys.
type surveyed struct {
	*model.Engine
	surveys atomic.Int64
}

func (s *surveyed) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	s.surveys.Add(1)
	return contract.SurveyorOf(s.Engine).Survey(ctx, namespace, p)
}

// C14.59, F6, G4: without a session nothing is surveyed. Fifty viewers within a second share one survey.
func TestViewersShareSurveys(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	engine := &surveyed{Engine: model.New(model.Config{Clock: fake})}
	r := newRigOn(t, engine, fake)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.dashboard.Run(ctx)
	}()
	r.clock.Advance(time.Hour)
	r.browser().get("/ui/login")
	if n := engine.surveys.Load(); n != 0 {
		t.Errorf("an unused dashboard makes %d surveys", n)
	}

	r.push(duly.Job{})
	for range 50 {
		if a := r.login("produce").get("/ui/n/shop/queues"); a.status != 200 {
			t.Fatalf("the list has the status %d", a.status)
		}
	}
	if n := engine.surveys.Load(); n != 1 {
		t.Errorf("50 viewers cause %d surveys", n)
	}
	eventually.True(t, "the wait of the history", func() bool { return r.clock.Timers() == 1 })
	r.clock.Advance(10 * time.Second)
	eventually.True(t, "the wait of the history", func() bool { return r.clock.Timers() == 1 })
	if n := engine.surveys.Load(); n != 2 {
		t.Errorf("ten seconds later there are %d surveys", n)
	}
	stop()
	eventually.Receive(t, "the end of the history", ended)
}
