package redisengine_test

import (
	"errors"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/redistest"
)

// C18.62: an adaptive limit is refused as a whole, and the end of one is no change.
func TestAdaptiveLimitIsUnsupported(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, server.URL()+"?prefix="+prefix)
	patch := duly.QueueConfig{MaxLeased: 4, MaxJobs: 9, Adapt: duly.Adapt{Floor: 0.1}}
	if err := e.Configure(t.Context(), duly.Q("q"), patch); !errors.Is(err, duly.ErrUnsupported) {
		t.Errorf("the engine answers %v", err)
	}
	if names, err := e.Queues(t.Context(), "", duly.PageParams{}); err != nil || len(names.Names) != 0 {
		t.Errorf("the refused call has created %v, %v", names.Names, err)
	}

	patch.Adapt.Floor = duly.None
	must(t, e.Configure(t.Context(), duly.Q("q"), patch))
	c, err := e.Config(t.Context(), duly.Q("q"))
	must(t, err)
	if c.MaxLeased != 4 || c.Adapt.Floor != duly.None {
		t.Errorf("the configuration is %+v", c)
	}
	s, err := e.Stats(t.Context(), duly.Q("q"))
	must(t, err)
	if s.Factor != 0 || s.Probing != 0 {
		t.Errorf("the stats are %+v", s)
	}
}
