package enginetest

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The tests in this file concern single shards: which jobs a shard has, their order, and its part
// of a limit. The tests in shardstogether.go concern a queue as a whole.

// shardTests returns the tests for engines that can split a queue into several shards.
func shardTests() []test {
	return []test{
		{"AreChosenByTheID", []string{"C1.4", "C6.16", "C11.7"}, Options{}, shardsByID},
		{"AreChosenByTheKey", []string{"C6.16", "C6.18"}, Options{}, shardsByKey},
		{"AreReadInTurnFromARandomStart", []string{"C4.14"}, Options{}, shardsInTurn},
		{"OrderAppliesWithinAShard", []string{"C6.1", "C6.3"}, Options{}, shardsOrder},
		{"EachEnforcesItsPartOfALimit", []string{"C10.13", "C10.14"}, Options{}, shardsLimits},
		{"EachEnforcesItsPartOfTheRate", []string{"C10.13", "C10.14"}, Options{}, shardsRate},
		{"EachKeepsItsPartOfTheDeadJobs", []string{"C10.13", "C8.10"}, Options{}, shardsDead},
		{"LimitBelowTheNumberOfShardsIsInvalid", []string{"C10.13"}, Options{}, shardsLimitTooSmall},

		{"AreListedInOrder", []string{"C4.49", "C4.51", "C4.52"}, Options{}, shardsListed},
		{"NewestReversesEachShard", []string{"C4.112", "C4.113", "C4.116"}, Options{}, shardsReversed},
		{"BeginAtTheMomentAfterAFullPage", []string{"C4.113", "C4.7"}, Options{}, shardsFromAfterBytes},
		{"OrderKeysAreListedShardByShard", []string{"C4.141", "C4.143"}, Options{}, shardsKeys},
		{"ShareTheByteLimitOfACall", []string{"C4.7"}, Options{}, shardsBytes},
		{"StepReportsMoreIfOneShardHasMore", []string{"C4.73"}, Options{}, shardsStep},
		{"AddUpInStats", []string{"C4.56", "C4.57", "C4.58"}, Options{}, shardsStats},
		{"PeekReturnsTheFirstJobOfAllShards", []string{"C4.47"}, Options{}, shardsPeek},
		{"PurgeCoversAllShards", []string{"C4.70"}, Options{}, shardsPurge},
		{"RequeueTakesTheOldestJobsOfAllShards", []string{"C4.64"}, Options{}, shardsRequeue},
		{"BatchReturnsResultsInOrder", []string{"C4.1", "C4.3", "C4.4"}, Options{}, shardsBatch},
		{"EachShardWakesAWaiter", []string{"C5.11", "C5.12", "C5.14", "C5.16"}, Options{}, shardsWake},
		{"AreDestroyedWithTheirQueue", []string{"C4.71", "C10.1", "C4.39"}, Options{}, shardsDestroyed},
		{"PushDuringConfigureStoresEachJobOnce", []string{"C4.3", "C4.62"}, Options{}, shardsConfigured},
		{"RequeueDuringConfigureReturnsEachResultOnce", []string{"C4.64", "C4.62"}, Options{}, shardsRequeuedWhileConfigured},
	}
}

// manyShards is the number of shards of the queues in these tests.
const manyShards = 8

// over gives the scene's queue several shards, which the test can see.
func (s *scene) over(patch duly.QueueConfig) {
	s.Helper()
	if !s.Sharded {
		s.Skip("the engine keeps a queue in one shard")
	}
	s.useEngineDirectly()
	patch.Shards = manyShards
	s.configure(patch)
}

// useEngineDirectly makes the scene use the engine itself, without the wrapper that hides the shards.
func (s *scene) useEngineDirectly() {
	if e, ok := s.Engine.(*sharded); ok {
		h := *s.Harness
		h.Engine, h.In = e.Engine, nil
		s.Harness = &h
	}
}

// inShard returns the job with an ID of the given shard, as duly's client would create it.
func inShard(shard int, j duly.Job) duly.Job {
	n := duly.NewNumber()
	n[shardByte] = byte(shard)
	j.ID, j.Made = n.String(), true
	return j
}

// inEach returns n jobs per shard, with the shards in turn.
func inEach(n int, j duly.Job) []duly.Job {
	jobs := make([]duly.Job, n*manyShards)
	for i := range jobs {
		jobs[i] = inShard(i%manyShards, j)
	}
	return jobs
}

// shardOf returns the shard of a delivery.
func (s *scene) shardOf(d duly.Delivery) int { return s.parts(d).Shard }

// perShard counts deliveries by shard.
func (s *scene) perShard(ds []duly.Delivery) (n [manyShards]int) {
	for _, d := range ds {
		n[s.shardOf(d)]++
	}
	return n
}

func (s *scene) ackAll(ds []duly.Delivery) {
	s.Helper()
	outcomes := make([]duly.SettleRequest, len(ds))
	for i, d := range ds {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
	}
	errs, err := s.Engine.Settle(s.ctx, s.namespace, outcomes)
	s.must("settle", err)
	for _, err := range errs {
		s.must("ack", err)
	}
}

func shardsByID(s *scene) {
	s.over(duly.QueueConfig{})
	same(s, "the shards", s.config().Shards, manyShards)
	// There are own IDs, client-made IDs of every shard, and an ID that the engine creates.
	jobs := append(numbered(40, "own-"), inEach(3, duly.Job{})...)
	jobs = append(jobs, made(duly.Job{}), duly.Job{})
	ids := s.pushAll(jobs...)
	seen := map[int]bool{}
	for _, d := range s.takeAll() {
		want := contract.ShardOf(d.ID, manyShards)
		same(s, "the shard of "+d.ID, s.shardOf(d), want)
		s.is(d.ID, duly.StateLeased)
		seen[want] = true
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == d.ID })
	}
	same(s, "the shards with jobs", len(seen), manyShards)
	s.sameIDs("the jobs not delivered", ids, []string{})
}

func shardsByKey(s *scene) {
	s.over(duly.QueueConfig{})
	body := []byte("body")
	keyed := []struct {
		job duly.Job
		key string // the key that decides the shard
	}{
		{duly.Job{OrderKey: "k"}, "k"},
		{duly.Job{OrderKey: "k", Merge: duly.Merge{Key: "m"}}, "k"},
		{duly.Job{Merge: duly.Merge{Key: "m"}}, "m"},
		{duly.Job{Merge: duly.Merge{Mode: duly.MergeKeep}, Body: body}, ""},
	}
	for i, k := range keyed {
		fits, _ := duly.ParseNumber(duly.MakeID(&k.job))
		if k.key != "" {
			same(s, "the byte of an ID that is made for the key", fits[shardByte], byte(crc32.ChecksumIEEE([]byte(k.key))))
		}
		other := fits
		// The other ID falls into the same shard, but its byte still differs from the key's.
		other[shardByte] ^= 0x80
		for _, id := range []string{"own", other.String()} {
			j := k.job
			j.ID = id
			s.names(fmt.Sprintf("job %d with the ID %s", i, id), s.try(j).Err, duly.CodeInvalid, "id")
			s.gone(id)
		}

		j := k.job
		j.ID = fits.String()
		s.push(j)
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), j.ID))
		// The engine makes the ID, which has to fall into the key's shard.
		d := s.push(k.job)
		same(s, "the shard of an ID that was left out", contract.ShardOf(d, manyShards), int(fits[shardByte])%manyShards)
		s.must("delete", s.Engine.Delete(s.ctx, s.ref(), d))
	}
	s.counted(duly.Counters{Pushed: 8, Deleted: 8})

	// The job has several faults. Fields that do not concern the shard are checked first.
	s.names("a bad key", s.try(duly.Job{ID: "own", OrderKey: "\n"}).Err, duly.CodeInvalid, "order_key")
}

func shardsInTurn(s *scene) {
	s.over(duly.QueueConfig{})
	s.pushAll(inEach(20, duly.Job{})...)
	ds := s.reserve(duly.MaxBatch)
	same(s, "the jobs of all shards", len(ds), 20*manyShards)
	var turns []int
	// Count consecutive deliveries of one shard as one turn.
	for _, d := range ds {
		if n := len(turns); n == 0 || turns[n-1] != s.shardOf(d) {
			turns = append(turns, s.shardOf(d))
		}
	}

	for i, shard := range turns {
		if shard != (turns[0]+i)%manyShards {
			s.Errorf("the shards were asked in the order %v, want each in turn", turns)
			break
		}
	}

	// Calls at the same time may begin at the same shard, so only two different starts are
	// required.
	s.pushAll(inEach(100, duly.Job{})...)
	begins := map[int]bool{}
	for range 80 * manyShards {
		if begins[s.shardOf(s.take())] = true; len(begins) == 2 {
			return
		}
	}
	s.Errorf("%d reserves began at the shards %v, want every shard", 80*manyShards, begins)
}

// byDelivery compares jobs by the order of delivery within a shard.
func byDelivery(a, b duly.Job) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID))
}

// scattered pushes n jobs into each shard, in mixed order, and waits until all are due. It
// returns the number of jobs.
func (s *scene) scattered(n int) int {
	s.Helper()
	jobs := inEach(n, duly.Job{})
	for i := range jobs {
		jobs[i].Priority = i * 7 % 5
		jobs[i].Delay = time.Duration(i*11%4) * time.Second
	}
	s.pushAll(jobs...)
	s.Advance(10 * time.Second)
	return len(jobs)
}

func shardsOrder(s *scene) {
	s.over(duly.QueueConfig{})
	n := s.scattered(30)
	last := map[int]duly.Job{}
	taken := 0
	for range n {
		for _, d := range s.reserve(7) {
			shard := s.shardOf(d)
			if before, ok := last[shard]; ok && byDelivery(before, d.Job) >= 0 {
				s.Errorf("shard %d delivered %+v before %+v", shard, before, d.Job)
			}
			last[shard] = d.Job
			taken++
		}
	}
	same(s, "the jobs delivered", taken, n)

	// A priority counts within its shard only, so it does not delay a low priority in another
	// shard. Consecutive calls may begin at the same shard, so many calls are allowed. The two
	// shards are opposite: each comes first for half of the possible starts.
	s.pushAll(inShard(1, duly.Job{Priority: 1000}), inShard(1+manyShards/2, duly.Job{Priority: -1000}))
	found := map[int]bool{}
	for range 5000 {
		d := s.take()
		s.release(d)
		if found[s.shardOf(d)] = true; len(found) == 2 {
			return
		}
	}
	s.Errorf("5000 reserves delivered only jobs of the shards %v, want every shard", found)
}

func shardsLimits(s *scene) {
	const limit = manyShards + 3
	s.over(duly.QueueConfig{MaxLeased: limit})
	// The remainder of the limit goes to the first shards.
	parts := [manyShards]int{2, 2, 2, 1, 1, 1, 1, 1}
	s.pushAll(inEach(5, duly.Job{})...)
	ds := s.takeAll()
	same(s, "the jobs that run", s.perShard(ds), parts)
	s.nothing("every shard runs its part")

	// The freed slot belongs to the shard of the acknowledged job.
	s.ackAll(ds[:1])
	again := s.takeAll()
	same(s, "the jobs after one ack", len(again), 1)
	same(s, "the shard of the next one", s.shardOf(again[0]), s.shardOf(ds[0]))

	n := s.on("bounded")
	n.configure(duly.QueueConfig{Shards: manyShards, MaxJobs: limit})
	var created [manyShards]int
	for shard := range manyShards {
		for range 5 {
			r := n.try(inShard(shard, duly.Job{}))
			if r.Err == nil {
				created[shard]++
			} else {
				n.refused("one more", r.Err, duly.CodeFull)
			}
		}
	}
	same(s, "the jobs that fit", created, parts)
	n.sizes(duly.Sizes{Ready: limit})
}

func shardsRate(s *scene) {
	s.over(duly.QueueConfig{Rate: duly.Rate{PerSecond: 4, Burst: manyShards + 1}})
	s.pushAll(inEach(10, duly.Job{})...)
	same(s, "the jobs of full buckets", s.perShard(s.takeAll()), [manyShards]int{2, 1, 1, 1, 1, 1, 1, 1})
	// Each shard gets half a job per second.
	s.Advance(2*time.Second - time.Millisecond)
	s.nothing("each shard has half a job a second")
	s.Advance(time.Millisecond)
	same(s, "the jobs two seconds later", s.perShard(s.takeAll()), [manyShards]int{1, 1, 1, 1, 1, 1, 1, 1})

	// A rate of one per second still allows each shard a burst of one.
	s.on("slow").configure(duly.QueueConfig{Shards: manyShards, Rate: duly.Rate{PerSecond: 1}})
	same(s, "a burst that was left out", s.on("slow").config().Rate.Burst, manyShards)
}

func shardsDead(s *scene) {
	s.over(duly.QueueConfig{DeadCount: manyShards + 2})
	s.pushAll(inEach(4, duly.Job{})...)
	for _, d := range s.takeAll() {
		s.bury(d, "no")
	}
	s.step()
	var kept [manyShards]int
	for _, j := range s.list(duly.StateDead) {
		kept[contract.ShardOf(j.ID, manyShards)]++
	}
	same(s, "the dead jobs", kept, [manyShards]int{2, 2, 1, 1, 1, 1, 1, 1})
}

func shardsLimitTooSmall(s *scene) {
	s.over(duly.QueueConfig{})
	n := manyShards - 1
	for field, patch := range map[string]duly.QueueConfig{
		"max_jobs": {MaxJobs: n}, "max_leased": {MaxLeased: n}, "dead_count": {DeadCount: n},
		"burst": {Rate: duly.Rate{PerSecond: 100, Burst: n}},
	} {
		s.unchanged("a limit below the number of shards", func() {
			s.names("configure", s.Engine.Configure(s.ctx, s.ref(), patch), duly.CodeInvalid, field)
		})
		// The number of shards of the same call counts for the check.
		patch.Shards = manyShards
		s.names("configure of a new queue", s.Engine.Configure(s.ctx, duly.Q("new"), patch), duly.CodeInvalid, field)
		same(s, "the number of queues", len(s.queues()), 1)
	}
	// A rate can be divided into any number of parts.
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 0.001}})
}

// shardsStep gives one shard more due jobs than one step moves, and the other shards one job
// each.
func shardsStep(s *scene) {
	const many = 1500
	for _, heavy := range []int{0, manyShards - 1} {
		n := s.on(fmt.Sprintf("heavy-%d", heavy))
		n.over(duly.QueueConfig{})
		jobs := make([]duly.Job, many)
		for i := range jobs {
			jobs[i] = inShard(heavy, duly.Job{Delay: time.Second})
		}
		n.pushAll(jobs[:1000]...)
		n.pushAll(jobs[1000:]...)
		n.pushAll(inEach(1, duly.Job{Delay: time.Second})...)
		n.Advance(time.Second)

		more, err := n.Maintainer.Step(n.ctx, n.ref())
		n.must("step", err)
		same(n, fmt.Sprintf("more, with %d jobs in shard %d", many, heavy), more, true)
		n.step()
		same(n, "the ready jobs", len(n.list(duly.StateReady)), many+manyShards)
	}
}
