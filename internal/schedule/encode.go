package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// encoded is the stored form of the fields that a caller sets, except the name. It has the
// same fields as the hashes, in one object.
type encoded struct {
	timing
	content
}

// Encode returns the fields that a caller sets, except the name, in the form that engines
// store. Defaults are left out.
func Encode(s *duly.Schedule) []byte { return jsonOf(encoded{timingOf(s), contentOf(s)}) }

// Decode returns the schedule of that name from its stored form, with the defaults filled
// in. Fields of a newer version are ignored.
func Decode(name string, text []byte) (duly.Schedule, error) {
	var e encoded
	if err := json.Unmarshal(text, &e); err != nil {
		return duly.Schedule{}, fmt.Errorf("the stored schedule is not valid: %w", err)
	}

	// An empty object is valid JSON, but a schedule without a spec has no ticks.
	if e.Spec == "" {
		return duly.Schedule{}, fmt.Errorf("the stored schedule has no spec, so it is damaged; put it again")
	}
	return contract.FillSchedule(duly.Schedule{
		Name: name, Spec: e.Spec, Zone: e.Zone, Start: fromMilli(e.Start), End: fromMilli(e.End),
		Jitter: e.Jitter, Window: e.Window, Catchup: e.Catchup, Overlap: e.Overlap, Owner: e.Owner,
		Template: e.Template.job(),
	}), nil
}

// job returns the template as a job.
func (t *template) job() duly.Job {
	j := duly.Job{
		Body: t.Body, Headers: t.Headers, Priority: t.Priority, Tries: t.Tries, MaxStalls: t.MaxStalls,
		Backoff: t.Backoff, TTL: t.TTL, Lease: t.Lease, OrderKey: t.OrderKey,
		Callback: t.Callback, OnDone: t.OnDone, OnDead: t.OnDead, Retain: t.Retain,
	}
	if m := t.Merge; m != nil {
		// A merge by the body has no key, so it is recognized by its mode.
		j.Merge = duly.Merge{Key: m.Key, Mode: m.Mode, MaxWait: m.MaxWait, Until: m.Until}
		if j.Merge.Mode == "" {
			j.Merge.Mode = duly.MergeKeep
		}
	}
	return j
}

func fromMilli(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return at(*ms)
}
