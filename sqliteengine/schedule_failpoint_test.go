package sqliteengine

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// scheduleFailpoints returns the operations on schedules.
func scheduleFailpoints() []failpointOp {
	hourly := duly.Schedule{Name: "a", Spec: "@every 1h"}
	put := func(f *failpoints, q duly.QueueRef, priority int) func() error {
		s := hourly
		s.Template.Priority = priority
		return func() error { _, err := f.e.PutSchedule(f.Context(), q, s); return err }
	}
	return []failpointOp{
		{"put a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			return put(f, q, 1)
		}},
		{"pause a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			return func() error { return f.e.PauseSchedule(f.Context(), q, "a") }
		}},
		{"resume a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			f.must(f.e.PauseSchedule(f.Context(), q, "a"))
			return func() error { return f.e.ResumeSchedule(f.Context(), q, "a") }
		}},
		{"delete a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			return func() error {
				err := f.e.DeleteSchedule(f.Context(), q, "a", 0)
				if duly.CodeOf(err) == duly.CodeNotFound {
					return nil // a repeated Fire changes nothing
				}
				return err
			}
		}},
		{"hold a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			return func() error { _, err := f.e.HoldSchedule(f.Context(), q, "a"); return err }
		}},
		{"release a schedule", time.Hour, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			_, err := f.e.HoldSchedule(f.Context(), q, "a")
			f.must(err)
			return func() error { return f.e.ReleaseSchedule(f.Context(), q, "a") }
		}},
		{"import a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			r, err := f.e.HoldSchedule(f.Context(), q, "a")
			f.must(err)
			r.Name = "b"
			return func() error { _, err := f.e.ImportSchedule(f.Context(), r); return err }
		}},
		{"drop a schedule", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			_, err := f.e.HoldSchedule(f.Context(), q, "a")
			f.must(err)
			return func() error {
				err := f.e.DropSchedule(f.Context(), q, "a")
				if duly.CodeOf(err) == duly.CodeNotFound {
					return nil // a repeat
				}
				return err
			}
		}},
		{"fire", time.Hour, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(put(f, q, 0)())
			info, err := f.e.GetSchedule(f.Context(), q, "a")
			f.must(err)
			run := info.Run()
			run.Queue, run.ID = q.Name, "run"
			tick := info.Next.UnixMilli()
			item := contract.FireItem{
				Name: "a", Version: info.Version, Expected: tick, Tick: tick, Following: tick + 3_600_000, Job: &run,
			}
			return func() error {
				results, err := f.e.Fire(f.Context(), q, []contract.FireItem{item})
				if err == nil && results[0].Status != contract.FireFired && results[0].Status != contract.FireStale {
					f.Errorf("fire is %+v", results[0])
				}
				return err
			}
		}},
	}
}
