// Package dulytest is a duly engine in memory, with a clock that the test
// moves: a delay of a week passes in a millisecond.
//
//	func TestReminderIsPushed(t *testing.T) {
//		e := dulytest.New(t)
//		shop := NewShop(e.Client())
//		shop.Order(17)
//
//		job := e.Only("reminders")       // exactly one job waits there
//		e.Advance(15 * time.Minute)      // now it is due
//		e.Drain("reminders", shop.Remind) // handle what is deliverable
//	}
//
// An [Engine] holds the whole contract, so everything that takes a
// contract.Engine runs on it as it does in production. A worker is handed to
// [Engine.Start]; from then on [Engine.Advance] goes from one moment to the
// next at which something becomes due, and lets the worker finish at each:
//
//	w := worker.New(e, worker.Config{})
//	w.Handle("orders", closeOrder)
//	e.Start(w)
//	e.Advance(7 * 24 * time.Hour) // every retry on the way has run
//
// Schedules fire when the clock passes their ticks, with and without a worker: put them
// with PutSchedule, and advance over a month of nights.
//
// Topics work as well: publish through the client, make a group by CreateGroup, and
// drain it under its name, "topic@group". [Engine.Published] lists a log.
//
// Nothing here sleeps, and nothing depends on how fast the machine is.
package dulytest
