// Package enginetest is the conformance suite of duly's engines.
//
// Every rule of docs/contract.md has a number, and every test lists the rules that it proves. An
// engine has to pass all of them. A [Suite] says how to create an engine whose clock only the
// test moves:
//
//	func TestConformance(t *testing.T) {
//		enginetest.Suite{New: newHarness, Bubble: true}.Run(t)
//	}
//
// [Suite.Model] also runs random operations against the engine and against the reference model of
// internal/model. It compares both after each step.
//
// [Suite.TopicModel] does the same for topics and groups. Their tests are in the files topic*.go
// and run for engines that implement contract.Topics. [Suite.ScheduleModel] does it for
// schedules, on engines that implement contract.Firer. Their tests are in schedules*.go. A
// [TickRace] lets many processes fire the same ticks.
//
// # How a test is built
//
// A test gets a scene: an engine, its clock, and short forms of the contract's operations (push,
// take, ack, nack, stall, …). A short form fails the test if its operation fails, so that a test
// reads like its rule. A test uses public operations only. It knows nothing about how an engine
// stores its data.
//
// An audit after every test checks the invariants: all pushed jobs are accounted for, lists and
// sizes agree, and Check finds no fault. A test that expects no change compares dumps of all that
// the API shows.
//
// No test sleeps. Time passes on the harness's clock. A test that depends on another goroutine
// calls Quiet of the harness. Tests with many workers or waiters use fewer of them under the race
// detector and through a server. Tests that take minutes need DULY_LONG=1.
//
// # Where to add a test
//
// Specify a new rule here first, never in the tests of one engine. Add the test to the file of
// its subject, with the rule's number and a name that states the behaviour. The file states.go
// drives every cell of the state table. It fails for a new event or state until it drives that
// one too.
package enginetest
