package enginetest

import (
	"slices"
	"testing"
)

// test proves one or more rules of docs/contract.md.
type test struct {
	// Name states the behaviour in CamelCase.
	Name string
	// Rules are the numbers of the proven rules.
	Rules []string
	// Options are what the test needs of its engine.
	Options Options
	// Func is the test. No other test uses its engine and clock.
	Func func(s *scene)
}

// subject is a group of tests. Its name is the first part of theirs.
type subject struct {
	name  string
	tests []test
}

func subjects() []subject {
	return []subject{
		{"Input", inputTests()},
		{"Delivery", deliveryTests()},
		{"Names", nameTests()},
		{"Push", pushTests()},
		{"Job", jobTests()},
		{"Batch", batchTests()},
		{"Reserve", reserveTests()},
		{"Suspect", suspectTests()},
		{"Wait", waitTests()},
		{"Lease", leaseTests()},
		{"Settle", settleTests()},
		{"Stale", staleTests()},
		{"Fence", fenceTests()},
		{"Retry", retryTests()},
		{"Dead", deadTests()},
		{"Requeue", requeueTests()},
		{"DeleteJobs", deleteJobsTests()},
		{"JobsByID", jobsByIDTests()},
		{"TTL", ttlTests()},
		{"Order", orderTests()},
		{"OrderKey", orderKeyTests()},
		{"Merge", mergeTests()},
		{"MergeRunning", mergeRunningTests()},
		{"Inspect", inspectTests()},
		{"Find", findTests()},
		{"Explain", explainTests()},
		{"Keys", slices.Concat(keysTests(), listKeyTests())},
		{"Stats", slices.Concat(statsTests(), rateStatsTests())},
		{"List", listTests()},
		{"ListNewest", listNewestTests()},
		{"Update", updateTests()},
		{"Operator", operatorTests()},
		{"Configure", configureTests()},
		{"Limits", limitTests()},
		{"Time", timeTests()},
		{"States", stateTests()},
		{"Payload", payloadTests()},
		{"Maintenance", maintenanceTests()},
		{"Tokens", tokenTests()},
		{"TokenLimits", tokenLimitTests()},
		{"TokenWatch", tokenWatchTests()},
		{"Slow", slowTests()},
		{"Cancels", cancelTests()},
		{"Placements", placementTests()},
		{"Targets", targetTests()},
		{"Errors", errorTests()},
		{"Shards", shardTests()},
		{"Concurrency", concurrencyTests()},
	}
}

// Run runs all tests of the contract. Each gets a new engine.
func (s Suite) Run(t *testing.T) {
	// A test of an optional part of engines is skipped if the engine lacks the part.
	all := subjects()
	if s.hasTopics(t) {
		all = append(all, topicSubjects()...)
	}
	if s.hasSchedules(t) {
		all = append(all, scheduleSubjects()...)
	}
	if s.adapts(t) {
		all = append(all, subject{"Adapt", adaptTests()})
	}
	// Subjects run in parallel, and the tests of a subject one after the other: hundreds of paused
	// tests would slow down Quiet, which looks at every goroutine.
	for _, sub := range all {
		if s.Subjects != nil && !slices.Contains(s.Subjects, sub.name) {
			continue
		}
		t.Run(sub.name, func(t *testing.T) {
			// Each test has its own engine and clock, so tests never share time.
			t.Parallel()
			for _, c := range sub.tests {
				t.Run(c.Name, func(t *testing.T) {
					s.run(t, c.Options, func(t *testing.T, h *Harness) { play(t, h, c.Func) })
				})
			}
		})
	}
}
