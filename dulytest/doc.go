// Package dulytest has a duly engine in memory, whose clock the test moves: a delay of a week
// takes a millisecond.
//
//	func TestReminderIsPushed(t *testing.T) {
//		e := dulytest.New(t)
//		shop := NewShop(e.Client())
//		shop.Order(17)
//
//		job := e.Only("reminders")       // exactly one job waits in the queue
//		e.Advance(15 * time.Minute)      // now it is due
//		e.Drain("reminders", shop.Remind) // handle the deliverable jobs
//	}
//
// An [Engine] implements the whole contract, so all code for a contract.Engine runs on it
// as in production. [Engine.Start] runs a worker. [Engine.Advance] then stops at every time
// at which a job is due, and waits until the worker has handled it:
//
//	w := worker.New(e, worker.Config{})
//	w.Handle("orders", closeOrder)
//	e.Start(w)
//	e.Advance(7 * 24 * time.Hour) // every retry on the way has run
//
// Schedules fire when the clock passes their ticks, with and without a worker: put them
// with PutSchedule, and advance over a month of nights.
//
// For topics, publish through the client, create a group with CreateGroup, and drain it
// under its name, "topic@group". [Engine.Published] lists a log.
//
// For a worker with middleware or kinds, drain its handler: e.Drain("mail",
// w.Handler("mail")).
//
// The package never sleeps, and does not depend on the speed of the machine.
package dulytest
