package codec

import (
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestScheduleRecordIsReadAsItWasPacked(t *testing.T) {
	t.Parallel()
	for _, r := range []contract.ScheduleRecord{
		{Schedule: duly.Schedule{Name: "a", Spec: "@daily"}, Version: 1},
		{
			Schedule: duly.Schedule{
				Name: "b", Spec: "0 3 * * *", Zone: "Europe/Berlin", Window: time.Hour, Overlap: duly.OverlapAll,
				Template: duly.Job{Body: []byte("\x00\xff"), Headers: map[string]string{"a": "b"}, Priority: -3},
			},
			Version: 1<<62 + 1, Paused: true, Next: 1<<47 + 1, Last: 1 << 40, Fired: 1, Skipped: 1 << 33, Missed: 1<<47 - 1,
		},
	} {
		r.Queue = duly.Q("q")
		r.Schedule = contract.FillSchedule(r.Schedule)
		got, err := ReadSchedule(r.Queue, r.Name, PackSchedule(&r))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("read\n%+v, %v, want\n%+v", got, err, r)
		}
	}
}

func TestDamagedScheduleRecordIsAnError(t *testing.T) {
	t.Parallel()
	r := contract.ScheduleRecord{Schedule: duly.Schedule{Name: "a", Spec: "@daily"}, Version: 1}
	text := PackSchedule(&r)
	for size := range len(text) {
		if got, err := ReadSchedule(duly.Q("q"), "a", text[:size]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", size, len(text), got)
		}
	}
}
