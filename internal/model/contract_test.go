package model_test

import (
	"testing"

	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// suite creates model engines that make no steps by themselves.
func suite() enginetest.Suite {
	return enginetest.Suite{
		Bubble: true,
		New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
			c := clock.NewFake()
			e := model.New(model.Config{Clock: c, MaxBody: o.MaxBody, MaxQueues: o.MaxQueues, Shards: o.Shards, Manual: !o.Own})
			t.Cleanup(func() { e.Close() })
			return &enginetest.Harness{Engine: e, Maintainer: e, Registry: e, Clock: c, Sharded: true}
		},
	}
}

func TestContract(t *testing.T) {
	suite().Run(t)
}

func TestShardedContract(t *testing.T) {
	s := suite()
	s.Shards = 8
	if testing.Short() {
		s.Subjects = []string{"Wait", "Shards", "Concurrency"} // TestContract has the other calls
	}
	s.Run(t)
}

// The model is compared with itself, so results always agree. The test shows that the scripts cause
// every transition, and that the model never panics.
func TestModelAgreesWithItself(t *testing.T) {
	t.Parallel()
	suite().Model(t)
}

func TestTopicModelAgreesWithItself(t *testing.T) {
	t.Parallel()
	suite().TopicModel(t)
}

func TestShardedModelAgreesWithItself(t *testing.T) {
	t.Parallel()
	s := suite()
	s.Shards = 8
	s.Model(t)
}

func TestScheduleModelAgreesWithItself(t *testing.T) {
	t.Parallel()
	suite().ScheduleModel(t)
}

func TestShardedScheduleModelAgreesWithItself(t *testing.T) {
	t.Parallel()
	s := suite()
	s.Shards, s.Sequences = 8, 150
	s.ScheduleModel(t)
}
