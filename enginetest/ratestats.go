package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The tests in this file read tokens and next token. Both add up over the shards, so each test sets
// the number of shards.

func rateStatsTests() []test {
	return []test{
		{"TokensAreTheDeliveriesThatTheRateAllows", []string{"C4.117"}, Options{}, tokensLeft},
		{"TokensAreNoneWithoutARate", []string{"C4.117"}, Options{}, tokensNone},
		{"NextTokenIsWhenReserveDelivers", []string{"C4.118"}, Options{}, tokensNext},
		{"NextTokenHoldsAfterTheClockWasSetBack", []string{"C4.118", "C5.6"}, Options{}, tokensSetBack},
		{"TokensFollowAChangeOfTheRate", []string{"C4.117", "C4.118"}, Options{}, tokensConfigured},
		{"ReleaseReturnsNoToken", []string{"C4.117", "C4.118", "C10.9"}, Options{}, tokensReleased},
		{"TokensIgnorePauseMaxLeasedAndClosings", []string{"C4.120"}, Options{}, tokensHeld},
		{"TokensAddUpOverShards", []string{"C4.117", "C4.118"}, Options{}, tokensOfShards},
		{"SurveyReturnsTokens", []string{"C4.121"}, Options{}, tokensSurveyed},
		{"GroupsHaveTokens", []string{"C4.117", "C4.118", "C4.121"}, Options{}, tokensOfGroups},
	}
}

// oneShard configures a queue that has one shard in every suite.
func (s *scene) oneShard(patch duly.QueueConfig) {
	s.Helper()
	s.useEngineDirectly()
	patch.Shards = 1
	s.configure(patch)
}

// configureRate configures a queue of one shard with a rate.
func (s *scene) configureRate(perSecond float64, burst int) {
	s.Helper()
	s.oneShard(duly.QueueConfig{Rate: duly.Rate{PerSecond: perSecond, Burst: burst}})
}

// checkTokens compares tokens and next token. If there are no tokens, the next one comes after wait.
func (s *scene) checkTokens(when string, want int64, wait time.Duration) {
	s.Helper()
	next := time.Time{}
	if want == 0 {
		next = s.now().Add(wait)
	}
	st := s.stats()
	same(s, "the tokens "+when, st.Tokens, want)
	sameTime(s, "the next token "+when, st.NextToken, next)
}

func tokensLeft(s *scene) {
	s.configureRate(2, 5)
	s.checkTokens("of a queue without jobs", 5, 0)
	s.pushAll(numbered(20, "j")...)
	s.checkTokens("of a full bucket", 5, 0)
	s.reserve(2)
	s.checkTokens("after two deliveries", 3, 0)
	s.reserve(3)
	s.checkTokens("after five deliveries", 0, 500*time.Millisecond)

	// A token takes half a second.
	s.Advance(499 * time.Millisecond)
	s.checkTokens("just before the next token", 0, time.Millisecond)
	s.Advance(time.Millisecond)
	s.checkTokens("at the next token", 1, 0)
	s.Advance(time.Second)
	s.checkTokens("of a bucket that is more than half full", 3, 0)
	s.unchanged("reading tokens", func() { s.checkTokens("of a second read", 3, 0) })
	s.Advance(time.Hour)
	s.checkTokens("of a bucket that is full again", 5, 0)
	same(s, "the deliveries", len(s.takeAll()), 5)
}

func tokensNone(s *scene) {
	s.useEngineDirectly()
	s.checkTokens("of an unknown queue", duly.None, 0)
	s.oneShard(duly.QueueConfig{MaxLeased: 1})
	s.push(duly.Job{ID: "x"})
	s.checkTokens("of a queue without a rate", duly.None, 0)
	s.take()
	s.checkTokens("at max leased", duly.None, 0)
}

// tokensNext compares next token with the time at which Reserve delivers, also where the refill of a
// token takes no whole number of milliseconds.
func tokensNext(s *scene) {
	for i, perSecond := range []float64{1, 3, 7, 0.1, 0.7, 333} {
		q := s.on(fmt.Sprint("q", i))
		q.configureRate(perSecond, 1)
		q.pushAll(numbered(8, "j")...)
		q.take()
		for round := range 6 {
			when := fmt.Sprintf("at %g per second in round %d", perSecond, round)
			next := q.stats().NextToken
			if wait := next.Sub(q.now()); wait > time.Millisecond {
				q.Advance(wait - time.Millisecond)
				q.nothing("the next token is a millisecond away " + when)
				q.checkTokens(when, 0, time.Millisecond)
			}
			q.Advance(next.Sub(q.now()))
			q.checkTokens(when, 1, 0)
			same(q, "the deliveries "+when, len(q.takeAll()), 1)
		}
	}
}

// tokensSetBack sets the clock back while the bucket is empty. The refill counts from the Reserve after
// that, and not from the time that the clock had before.
func tokensSetBack(s *scene) {
	s.configureRate(2, 1)
	jobs := numbered(8, "j")
	for i := range jobs {
		jobs[i].Due = s.now().Add(-2 * time.Hour)
	}
	s.pushAll(jobs...)
	s.take()

	s.Clock.Step(-time.Hour)
	s.nothing("the bucket is empty")
	s.checkTokens("after the step", 0, 500*time.Millisecond)
	s.Advance(499 * time.Millisecond)
	s.nothing("the next token is a millisecond away")
	s.Advance(time.Millisecond)
	same(s, "the deliveries", len(s.takeAll()), 1)
}

func tokensConfigured(s *scene) {
	s.configureRate(2, 10)
	s.pushAll(numbered(20, "j")...)
	same(s, "the deliveries", len(s.reserve(8)), 8)
	s.checkTokens("after eight deliveries", 2, 0)

	// A smaller bucket cannot miss more than it holds.
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 2, Burst: 3}})
	s.checkTokens("of a smaller bucket", 0, 500*time.Millisecond)
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 20, Burst: 3}})
	s.checkTokens("at a higher rate", 0, 50*time.Millisecond)
	s.Advance(100 * time.Millisecond)
	s.checkTokens("later at a higher rate", 2, 0)
	same(s, "the deliveries at a higher rate", len(s.takeAll()), 2)
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: duly.None}})
	s.checkTokens("after the end of the rate", duly.None, 0)
}

func tokensReleased(s *scene) {
	s.configureRate(1, 1)
	s.push(duly.Job{ID: "x"})
	d := s.take()
	s.checkTokens("of an empty bucket", 0, time.Second)
	s.release(d)
	s.checkTokens("after a release", 0, time.Second)
	s.Advance(time.Second)
	s.checkTokens("a second later", 1, 0)
	s.takes("x")
}

func tokensHeld(s *scene) {
	s.oneShard(duly.QueueConfig{Rate: duly.Rate{PerSecond: 1, Burst: 3}, MaxLeased: 1})
	s.pushAll(numbered(5, "j")...)
	d := s.take()
	s.nothing("max leased is reached")
	s.checkTokens("at max leased", 2, 0)
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.checkTokens("of a paused queue", 2, 0)
	s.slow(d, time.Minute, "429")
	s.checkTokens("of a closed queue", 2, 0)

	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	s.configure(duly.QueueConfig{MaxLeased: 9, Reopen: true})
	ds := s.takeAll()
	same(s, "the deliveries of an open queue", len(ds), 2)
	s.slow(ds[0], time.Minute, "429")
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.checkTokens("of a closed queue with an empty bucket", 0, time.Second)
}

func tokensOfShards(s *scene) {
	s.over(duly.QueueConfig{Rate: duly.Rate{PerSecond: manyShards, Burst: 2 * manyShards}})
	s.checkTokens("of full buckets", 2*manyShards, 0)

	// The bucket of one shard is emptied before those of the others.
	s.pushAll(inShard(0, duly.Job{}), inShard(0, duly.Job{}), inShard(0, duly.Job{}))
	same(s, "the deliveries of the shard", len(s.takeAll()), 2)
	s.checkTokens("of the other shards", 2*manyShards-2, 0)
	s.Advance(400 * time.Millisecond)
	s.pushAll(inEach(3, duly.Job{})...)
	same(s, "the deliveries of the other shards", len(s.takeAll()), 2*manyShards-2)
	s.checkTokens("of empty buckets", 0, 600*time.Millisecond)

	s.Advance(600*time.Millisecond - 1)
	s.nothing("the first bucket has no whole token")
	s.Advance(1)
	s.checkTokens("of the first shard", 1, 0)
	same(s, "the deliveries of the first shard", len(s.takeAll()), 1)
	s.checkTokens("of the shards that are next", 0, 400*time.Millisecond)
	s.Advance(400 * time.Millisecond)
	s.checkTokens("of the other shards, which are next", manyShards-1, 0)
}

func tokensSurveyed(s *scene) {
	s.useEngineDirectly()
	for _, name := range []string{"busy", "idle"} {
		s.on(name).configureRate(2, 3)
	}
	s.on("free").push(duly.Job{})
	s.on("busy").pushAll(numbered(9, "j")...)
	same(s, "the deliveries", len(s.on("busy").takeAll()), 3)

	surveyed := func(want map[string]int64, next time.Time) {
		s.Helper()
		page, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, s.namespace, duly.PageParams{})
		s.must("survey", err)
		got := map[string]int64{}
		for _, q := range page.Queues {
			s.must("survey of "+q.Name, q.Err)
			if got[q.Name] = q.Stats.Tokens; q.Stats.Tokens == 0 {
				sameTime(s, "the next token of "+q.Name, q.Stats.NextToken, next)
			}
		}
		same(s, "the tokens in the survey", fmt.Sprint(got), fmt.Sprint(want))
		s.surveyed(10)
	}
	surveyed(map[string]int64{"busy": 0, "idle": 3, "free": duly.None}, s.now().Add(500*time.Millisecond))

	// A queue whose jobs are gone has less than a full bucket, too.
	s.on("idle").push(duly.Job{})
	s.on("idle").ack(s.on("idle").take())
	s.Advance(499 * time.Millisecond)
	surveyed(map[string]int64{"busy": 0, "idle": 2, "free": duly.None}, s.now().Add(time.Millisecond))
	s.Advance(time.Millisecond)
	surveyed(map[string]int64{"busy": 1, "idle": 3, "free": duly.None}, time.Time{})
}

func tokensOfGroups(s *scene) {
	s.useEngineDirectly()
	if !s.hasTopics() {
		s.Skip("the engine has no topics")
	}
	s.configureTopic(duly.TopicConfig{Shards: 1})
	g, free := s.group("g"), s.group("free")
	g.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 2, Burst: 2}})
	s.send("a", "b", "c")
	g.checkTokens("of a group with a full bucket", 2, 0)
	free.checkTokens("of a group without a rate", duly.None, 0)
	ds := g.takeAll()
	same(s, "the deliveries of the group", len(ds), 2)
	g.release(ds[0])
	g.checkTokens("of a group with an empty bucket", 0, 500*time.Millisecond)
	s.surveyed(10)

	s.Advance(499 * time.Millisecond)
	g.nothing("the bucket of the group has no whole token")
	s.Advance(time.Millisecond)
	g.checkTokens("of a group after half a second", 1, 0)
	s.surveyed(10)
	same(s, "the deliveries after half a second", len(g.takeAll()), 1)
}

// tokensAdapted checks that the tokens follow a halved rate.
func tokensAdapted(s *scene) {
	s.oneShard(duly.QueueConfig{Rate: duly.Rate{PerSecond: 10, Burst: 10}, Adapt: duly.Adapt{Floor: 0.1}})
	s.pushAll(numbered(40, "j")...)
	ds := s.takeAll()
	same(s, "the burst", len(ds), 10)
	s.Advance(900 * time.Millisecond)
	s.checkTokens("at the whole rate", 9, 0)

	// An overload halves the rate and the size of the bucket.
	s.overload(ds[0])
	s.factor("after an overload", 0.5)
	s.checkTokens("at half of the rate", 4, 0)
	same(s, "the deliveries after the overload", len(s.takeAll()), 4)
	s.checkTokens("of an empty bucket at half of the rate", 0, 200*time.Millisecond)
	s.Advance(199 * time.Millisecond)
	s.nothing("half of the rate takes longer")
	s.Advance(time.Millisecond)
	s.checkTokens("after a token at half of the rate", 1, 0)
	same(s, "the deliveries at half of the rate", len(s.takeAll()), 1)
}

func tokensInProbing(s *scene) {
	s.oneShard(duly.QueueConfig{Rate: duly.Rate{PerSecond: 100, Burst: 100}, Adapt: duly.Adapt{Floor: 0.1}})
	s.pushAll(durable(40)...)
	s.probing()

	// The rate allows more than the closing and the probe do.
	s.checkTokens("at the floor", 0, 100*time.Millisecond)
	s.Advance(time.Second)
	s.checkTokens("of a bucket that is full at the floor", 10, 0)
	s.take()
	s.nothing("the probe is leased")
	s.checkTokens("after the probe", 9, 0)
}
