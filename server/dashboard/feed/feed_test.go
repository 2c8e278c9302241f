package feed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
)

// surveyor counts looks. A look takes some time of the clock.
type surveyor struct {
	clock *clock.Fake
	looks atomic.Int64
	takes time.Duration
	err   error
}

func (s *surveyor) Survey(context.Context, string, duly.PageParams) (contract.SurveyPage, error) {
	s.looks.Add(1)
	if s.takes > 0 {
		s.clock.Advance(s.takes)
	}
	return contract.SurveyPage{Queues: []contract.QueueStats{{Name: "q"}}}, s.err
}

// rig is a feed on a fake clock.
type rig struct {
	t *testing.T
	*surveyor
	*Feed
}

func newRig(t *testing.T) *rig {
	c := clock.NewFake()
	s := &surveyor{clock: c}
	return &rig{t, s, &Feed{Surveyor: s, Clock: c}}
}

// next returns the next look of a viewer.
func (r *rig) next(v *Viewer) *Look {
	r.t.Helper()
	return eventually.Receive(r.t, "a look", v.Looks())
}

// pass lets time pass after the feed has begun to wait.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	eventually.True(r.t, "the wait between two looks", func() bool { return r.clock.Timers() > 0 })
	r.clock.Advance(d)
}

// G4: many viewers cause the looks of one, and a new one sees the last look at once.
func TestViewersShareLooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.Watch("shop")
	defer first.Close()
	if look := r.next(first); len(look.Queues) != 1 || look.Err != nil {
		t.Errorf("the look is %+v", look)
	}
	var others []*Viewer
	for range 50 {
		v := r.Watch("shop")
		defer v.Close()
		others = append(others, v)
		r.next(v)
	}
	if n := r.looks.Load(); n != 1 {
		t.Errorf("51 viewers cause %d looks", n)
	}
	for range 3 {
		r.pass(every)
		r.next(first)
		for _, v := range others {
			r.next(v)
		}
	}
	if n := r.looks.Load(); n != 4 {
		t.Errorf("after 3 s there are %d looks", n)
	}
}

// G4: without viewers nothing looks.
func TestLastViewerEndsLooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v, w := r.Watch("shop"), r.Watch("shop")
	r.next(v)
	v.Close()
	v.Close()
	r.pass(every)
	r.next(w)
	eventually.True(t, "the wait between two looks", func() bool { return r.clock.Timers() > 0 })
	w.Close()
	eventually.True(t, "the end of the looks", func() bool { return r.clock.Timers() == 0 })
	r.clock.Advance(time.Minute)
	if n := r.looks.Load(); n != 2 {
		t.Errorf("there are %d looks", n)
	}
}

// Section 5: looks take a tenth of the time. An error is a look too, and a viewer that sleeps gets the newest one.
func TestSlowAndFailingLooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.takes, r.err = 2*time.Second, errors.New("down")
	v := r.Watch("shop")
	defer v.Close()
	if look := r.next(v); look.Err == nil {
		t.Errorf("the look is %+v", look)
	}
	r.pass(17 * time.Second)
	if n := r.looks.Load(); n != 1 {
		t.Errorf("after 17 s there are %d looks", n)
	}
	r.pass(time.Second)
	eventually.True(t, "the second look", func() bool { return r.looks.Load() == 2 })
	r.pass(18 * time.Second)
	eventually.True(t, "the third look", func() bool { return r.looks.Load() == 3 && r.clock.Timers() > 0 })
	if look := r.next(v); !look.At.After(r.clock.Now().Add(-3 * time.Second)) {
		t.Errorf("the viewer gets a look of %v at %v", look.At, r.clock.Now())
	}
}

// G4: pages share a look for a second, and take that of a viewer. A look that panics ends the wait of the others.
func TestPagesShareLooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var pages sync.WaitGroup
	for range 20 {
		pages.Go(func() {
			if look := r.Look(t.Context(), "shop"); len(look.Queues) != 1 || look.Err != nil {
				t.Errorf("the look is %+v", look)
			}
		})
	}
	pages.Wait()
	if n := r.looks.Load(); n != 1 {
		t.Errorf("20 pages cause %d looks", n)
	}
	r.clock.Advance(every)
	r.Look(t.Context(), "shop")
	v := r.Watch("shop")
	defer v.Close()
	look := r.next(v)
	if got := r.Look(t.Context(), "shop"); got != look || r.looks.Load() != 3 {
		t.Errorf("a page beside a viewer causes %d looks", r.looks.Load())
	}

	r.Seen = func(string, *Look) { panic("seen") }
	func() {
		defer func() { _ = recover() }()
		r.Look(t.Context(), "other")
	}()
	if got := r.Look(t.Context(), "other"); !errors.Is(got.Err, duly.ErrInternal) {
		t.Errorf("after a panic the look is %+v", got)
	}
}
