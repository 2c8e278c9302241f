package enginetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// An opening that misses its situation would compare nothing of the limiter.
func TestOpeningsOfTheLimiterReachProbing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then   []operation
		leased int64
	}{
		"ProbeIsNext":   {nil, 0},
		"ProbeIsLeased": {[]operation{advanceOp{time.Second}, reserveOp{Queues: []queueSpec{0}, Max: 5}}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := clock.NewFake()
			m := model.New(model.Config{Clock: c, MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, OneShard: true, Manual: true})
			defer m.Close()
			h := &Harness{Engine: m, Maintainer: m, Clock: c, Quiet: synctest.Wait}
			if _, err := playBoth(t.Context(), h, probing(tt.then...)); err != nil {
				t.Fatal(err)
			}
			st, err := m.Stats(t.Context(), queueSpec(0).ref())
			if err != nil || st.Sizes.Leased != tt.leased || st.Probing != 1 {
				t.Errorf("%s: %d jobs are leased, %d shards are in probing, %v; want %d and 1", name, st.Sizes.Leased, st.Probing,
					err, tt.leased)
			}
		})
	}
}
