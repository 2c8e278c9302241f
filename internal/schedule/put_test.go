package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cron"
)

func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// put makes a Put that must succeed.
func put(t *testing.T, old *contract.ScheduleRecord, s duly.Schedule, now int64) (contract.ScheduleRecord,
	duly.ScheduleStatus) {
	t.Helper()
	timing, err := Timing(&s)
	if err != nil {
		t.Fatal(err)
	}
	r, status, err := Put(old, duly.Q("reports"), s, timing, moment(now))
	if err != nil {
		t.Fatal(err)
	}
	return r, status
}

// Rules C17.119 to C17.122.
func TestPutMovesNextOnlyForAnotherTiming(t *testing.T) {
	t.Parallel()
	s := duly.Schedule{Name: "nightly", Spec: "0 3 * * *", Owner: "app"}
	first, status := put(t, nil, s, tick0-hour)
	if status != duly.ScheduleCreated || first.Next != tick0 || first.Version != (tick0-hour)*1000 || first.Zone != "UTC" {
		t.Fatalf("%s, %+v", status, first)
	}

	// The tick is due, and a deployment repeats its Put.
	first.Paused = true
	same := s
	same.Zone, same.Catchup = "UTC", duly.CatchupOne
	r, status := put(t, &first, same, tick0+hour)
	if status != duly.ScheduleUnchanged || r.Next != tick0 || r.Version != first.Version {
		t.Errorf("the same again: %s, %+v", status, r)
	}

	content := s
	content.Template.Body = []byte("new")
	r, status = put(t, &first, content, tick0+hour)
	if status != duly.ScheduleChanged || r.Next != tick0 || r.Version <= first.Version || !r.Paused ||
		string(r.Template.Body) != "new" {
		t.Errorf("another content: %s, %+v", status, r)
	}

	timing := s
	timing.Spec = "30 3 * * *"
	first.Last = tick0
	r, status = put(t, &first, timing, tick0-5*day)
	if status != duly.ScheduleChanged || r.Next != tick0+30*minute || r.Last != tick0 || !r.Paused {
		t.Errorf("another timing: %s, %+v", status, r)
	}
}

// Rule C17.14: a version never repeats, also if the clock steps back.
func TestVersionsAlwaysRise(t *testing.T) {
	t.Parallel()
	s := duly.Schedule{Name: "nightly", Spec: "0 3 * * *"}
	r, _ := put(t, nil, s, tick0)
	last := r.Version
	s.Template.Priority = 1
	r, _ = put(t, &r, s, tick0-day)
	if r.Version != last+1 {
		t.Errorf("version %d after %d", r.Version, last)
	}
	if Pause(&r, moment(tick0-day)); r.Version != last+2 {
		t.Errorf("version %d after %d", r.Version, last+1)
	}
	if Pause(&r, moment(tick0)); r.Version != last+2 {
		t.Error("a second Pause changes the version")
	}
}

// Rules C17.35 and C17.119: a schedule without a next tick cannot be put, but a deployment can
// repeat the Put of a schedule whose last tick has passed.
func TestPutAfterTheLastTick(t *testing.T) {
	t.Parallel()
	s := duly.Schedule{Name: "nightly", Spec: "0 3 * * *", End: moment(tick0)}
	r, _ := put(t, nil, s, tick0-hour)
	r.Next = 0
	if again, status := put(t, &r, s, tick0+hour); status != duly.ScheduleUnchanged || again.Next != 0 {
		t.Errorf("%s, %+v", status, again)
	}
	timing, err := Timing(&s)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Put(nil, duly.Q("reports"), s, timing, moment(tick0+hour)); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a new schedule: %v", err)
	}
	s.Template.Priority = 1
	if _, _, err := Put(&r, duly.Q("reports"), s, timing, moment(tick0+hour)); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("another content: %v", err)
	}
}

// Rule C17.123.
func TestPutOfAnotherOwnerConflicts(t *testing.T) {
	t.Parallel()
	old, _ := put(t, nil, duly.Schedule{Name: "nightly", Spec: "@daily", Owner: "app"}, tick0)
	for _, owner := range []string{"", "other"} {
		s := duly.Schedule{Name: "nightly", Spec: "@daily", Owner: owner}
		_, _, err := Put(&old, duly.Q("reports"), s, cron.Timing{}, moment(tick0))
		if !errors.Is(err, duly.ErrConflict) || !strings.Contains(err.Error(), `"app"`) {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
}

// Rules C17.115 and C17.128.
func TestResumeSkipsTicksOfThePause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		now, next  int64
		last       int64
		wantNext   int64
		wantMissed int64
		spec       string
	}{
		{"NoTickPassed", tick0 - 1, tick0, 0, tick0, 0, "0 3 * * *"},
		{"OneTickPassed", tick0, tick0, 0, tick0 + day, 1, "0 3 * * *"},
		{"ThreeTicksPassed", tick0 + 2*day + 1, tick0, 0, tick0 + 3*day, 3, "0 3 * * *"},
		{"CountIsBounded", tick0 + day, tick0, 0, tick0 + day + second, 1000, "* * * * * *"},
		{"LastIsLater", tick0 - 5*day, tick0, tick0, tick0 + day, 0, "0 3 * * *"},
		{"ClockSteppedBack", tick0 - 5*day, tick0, 0, tick0, 0, "0 3 * * *"},
		{"NoNext", tick0, 0, 0, 0, 0, "0 3 * * *"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, timing := record(t, duly.Schedule{Spec: tt.spec}, tt.next)
			r.Last = tt.last
			if Resume(r, timing, moment(tt.now)) {
				t.Error("a schedule that is not paused resumes")
			}
			r.Paused = true
			if !Resume(r, timing, moment(tt.now)) || r.Paused || r.Version <= 7 {
				t.Errorf("%+v is not resumed", r)
			}
			if r.Next != tt.wantNext || r.Missed != tt.wantMissed {
				t.Errorf("next %d, missed %d, want %d and %d", r.Next, r.Missed, tt.wantNext, tt.wantMissed)
			}
		})
	}
}

// Rule C17.39: a zone that this process does not know is an error. It is not replaced by another
// zone.
func TestTimingOfUnknownZoneFails(t *testing.T) {
	t.Parallel()
	if _, err := Timing(&duly.Schedule{Spec: "@daily", Zone: "Mars/Phobos"}); err == nil {
		t.Error("the zone Mars/Phobos has a timing")
	}
	if _, err := Timing(&duly.Schedule{Spec: "@reboot"}); err == nil {
		t.Error("@reboot has a timing")
	}
}
