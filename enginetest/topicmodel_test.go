package enginetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// TestTopicModelFindsPlantedBugs runs the model test of topics against engines with one bug each. It
// has to find all of them.
func TestTopicModelFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, bug := range topicBugs() {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			findsBug(t, topicScripts(modelSteps), func(sc script) error { return playTopicBug(t, bug, sc) })
		})
	}
}

// playTopicBug runs one script against a model with the bug.
func playTopicBug(t *testing.T, bug plantedBug, sc script) (err error) {
	synctest.Test(t, func(t *testing.T) { err = playOnModel(t, bug, sc, playTopics) })
	return err
}

// topicBugs returns bugs of leases, closings and limiters. Most of them are bugs of queues as well.
func topicBugs() []plantedBug {
	names := map[string]bool{"IgnoresARate": true, "ClosesNothing": true, "ClosesForAMillisecondMore": true,
		"AdaptsNothing": true, "ReopensNothing": true, "DeliversAMillisecondEarly": true}
	bugs := []plantedBug{
		{name: "TakesAFailureForARelease", settle: func(_ *buggy, _ string, o *duly.SettleRequest) {
			if o.As == duly.Nack && o.Delay == nil {
				o.As = duly.Release
			}
		}},
		{name: "CountsNoProbing", stats: func(st *duly.Stats) { st.Probing = 0 }},
		{name: "StartsAtTheFloor", stats: func(st *duly.Stats) {
			if st.Factor == 0.5 {
				st.Factor = 0.1
			}
		}},
	}
	for _, bug := range plantedBugs() {
		if names[bug.name] {
			bugs = append(bugs, bug)
		}
	}
	return bugs
}

// Openings that miss their situation would compare nothing of a group's limiter.
func TestOpeningsOfTopicsReachTheLimiter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then   []operation
		leased int64
	}{
		"ProbeIsNext":   {nil, 0},
		"ProbeIsLeased": {[]operation{topicClockOp{By: time.Second}, topicReserveOp{At: []groupSpec{{0, 0}}, Max: 5}}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := clock.NewFake()
			m := model.New(model.Config{Clock: c, MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, OneShard: true,
				Manual: true})
			defer m.Close()
			h := &Harness{Engine: m, Maintainer: m, Clock: c, Quiet: synctest.Wait}
			if _, err := playTopics(t.Context(), h, probingGroup(tt.then...)); err != nil {
				t.Fatal(err)
			}
			st, err := m.Stats(t.Context(), groupSpec{0, 0}.ref())
			if err != nil || st.Sizes.Leased != tt.leased || st.Probing != 1 {
				t.Errorf("%s: %d messages are leased, %d shards are in probing, %v; want %d and 1", name, st.Sizes.Leased,
					st.Probing, err, tt.leased)
			}
		})
	}
}
