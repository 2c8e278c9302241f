// Package enginetest proves that an engine holds duly's contract.
//
// Every rule of docs/contract.md has a number, and every test here carries the
// numbers of the rules that it proves. An engine passes all of them, called
// with a [Suite] that makes engines on a clock which only the test moves:
//
//	func TestConformance(t *testing.T) {
//		enginetest.Suite{New: newHarness, Bubble: true}.Run(t)
//	}
//
// [Suite.Model] then plays random operations against the engine and against
// the reference model of internal/model, and compares them step by step.
//
// [Suite.TopicModel] does the same with topics and groups. Their tests, in the
// files topic*.go, run for engines that implement contract.Topics.
//
// # How a test is made
//
// A test stands on a scene: an engine of its own, its clock, and the verbs of
// the contract in a short form (push, take, ack, nack, stall, …) that fail the
// test where an operation does not end as the verb says. So a test reads like
// its rule. It goes through the public operations alone and knows nothing of
// how an engine stores what it holds.
//
// What must hold always is looked at once for all, in the audit behind every
// test: pushed jobs are all accounted for, lists and sizes agree, and Check
// finds nothing. What must change nothing is compared by a dump of everything
// that can be seen.
//
// No test sleeps. Time passes by the harness's clock; whoever waits for
// another goroutine asks the harness to be Quiet. A crowd (of workers, of
// waiters) is smaller under the race detector and through a server, and
// whatever takes minutes asks for DULY_LONG=1.
//
// # Where to put a new one
//
// A new rule of behaviour is written here first, never in one engine's tests:
// into the file of its subject, with its number, and with a name that is a
// sentence. The state table is walked in states.go, cell by cell; an event or
// a state that is added fails there until it is driven.
package enginetest
