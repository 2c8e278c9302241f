package failures

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// P8.3: an action takes the jobs of the group that died before the click, and no other. It takes a limited number, and
// continues behind them.
func TestSelectionTakesJobsBeforeTheClick(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	for i := range 2*MaxSelected + 500 {
		d.add(0, fmt.Sprintf("boom %d", i))
		if i%4 == 0 {
			d.add(0, "bang")
		}
	}
	s := &Selection{Fingerprint: Fingerprint("boom 1"), Before: d.clock.Now().UnixMilli()}
	d.clock.Advance(time.Millisecond)
	late := d.add(0, "boom 2")

	taken := 0
	for _, want := range []int{MaxSelected, MaxSelected, 500} {
		n := 0
		err := s.Each(t.Context(), d, d.clock, duly.Q("mail"), func(ids []string) error {
			if len(ids) > duly.MaxBatch {
				t.Fatalf("%d jobs in one step", len(ids))
			}
			n += len(ids)
			d.remove(ids...)
			return nil
		})
		if err != nil || n != want || s.More != (want == MaxSelected) {
			t.Fatalf("%d jobs, more: %v, %v; want %d", n, s.More, err, want)
		}
		taken += n
	}
	if left := d.shards[0]; len(left) != (taken+3)/4+1 || left[len(left)-1].ID != late {
		t.Errorf("%d jobs are left", len(left))
	}
}

// An action ends in time, also if it finds nothing, and continues where it was.
func TestSelectionEndsInTime(t *testing.T) {
	t.Parallel()
	d := newSet(1)
	for range 30_000 {
		d.add(0, "bang")
	}
	d.add(0, "boom")
	d.took = time.Second
	s, found := &Selection{Fingerprint: Fingerprint("boom")}, 0
	looks := 0
	for more := true; more; more = s.More {
		looks++
		err := s.Each(t.Context(), d, d.clock, duly.Q("mail"), func(ids []string) error { found += len(ids); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 || looks != 4 {
		t.Errorf("%d jobs in %d looks", found, looks)
	}
}
