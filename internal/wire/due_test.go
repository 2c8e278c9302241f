package wire

import (
	"math"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// A due time before the representable range is still in the past.
func TestDueBeforeRecordedTimeIsStillInThePast(t *testing.T) {
	t.Parallel()
	for _, due := range []time.Time{
		time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 0), time.Unix(math.MinInt64/2, 0),
		time.UnixMilli(math.MinInt64),
	} {
		jobs, err := ReadPush(string(AppendPush(nil, []duly.Job{{Queue: "q", Due: due}})), "")
		if err != nil || jobs.Errs != nil || jobs.Values[0].Due.After(time.Unix(0, 0)) {
			t.Errorf("a push due at %s is read as %+v, %v", due, jobs, err)
		}
		u, err := UpdateForm.ReadRequest(string(UpdateForm.Append(nil, duly.Update{Due: due})))
		if err != nil || u.Due.After(time.Unix(0, 0)) {
			t.Errorf("an update due at %s is read as %s, %v", due, u.Due, err)
		}
	}
}
