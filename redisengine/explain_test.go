package redisengine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// TestExplainNamesADamagedHolder checks that Explain of a blocked job returns corrupt if the record of the
// job was cut that holds its order key. The error names that job.
//
// C13.15
func TestExplainNamesADamagedHolder(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 3, 7, 9} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			r.push(duly.Job{Body: []byte("head"), OrderKey: "k"}, duly.Job{Body: []byte("job"), OrderKey: "k"})
			r.locate()
			v, head := victim{r, r.jobs["job"], "job"}, victim{r, r.jobs["head"], "head"}
			head.on("HSET", "records", head.number, head.hash("records", head.number)[:size])

			_, err := r.e.Explain(t.Context(), damageQueue, v.id())
			if duly.CodeOf(err) != duly.CodeCorrupt || !strings.Contains(err.Error(), head.id()) ||
				!strings.Contains(err.Error(), "duly check --repair") {
				t.Errorf("Explain returned %v", err)
			}
		})
	}
}

// TestExplainIgnoresForeignEntries checks that Explain counts the jobs before a job if another program has
// put entries and impossible scores into the sets.
func TestExplainIgnoresForeignEntries(t *testing.T) {
	t.Parallel()
	for _, score := range oddScores {
		t.Run(score, func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			r.push(duly.Job{Body: []byte("a")}, duly.Job{Body: []byte("b")},
				duly.Job{Body: []byte("due"), Delay: time.Millisecond})
			r.locate()
			for _, set := range []string{"ready", "leased"} {
				r.do("ZADD", r.key(0, set), score, "junk")
			}
			r.clock.Advance(time.Second)

			for _, name := range []string{"b", "due"} {
				v := victim{r, r.jobs[name], name}
				x, err := r.e.Explain(t.Context(), damageQueue, v.id())
				if err != nil || len(x.Facts) == 0 || x.Facts[0].Code != contract.FactBehind || x.Facts[0].Count == 0 {
					t.Errorf("%s: Explain returned %+v, %v", name, x, err)
				}
			}
		})
	}
}

// TestExplainAfterTheHolderIsLost checks that Explain of a blocked job says that a step has to come, if the
// key is held by a job that does not exist.
func TestExplainAfterTheHolderIsLost(t *testing.T) {
	t.Parallel()
	r := openDamaged(t, 1, clock.NewFake())
	r.push(duly.Job{Body: []byte("head"), OrderKey: "k"}, duly.Job{Body: []byte("job"), OrderKey: "k"})
	r.locate()
	v := victim{r, r.jobs["job"], "job"}
	v.on("HSET", "busy", "k", strings.Repeat("x", 16))
	x, err := r.e.Explain(t.Context(), damageQueue, v.id())
	if err != nil || len(x.Facts) != 2 || x.Facts[0].Holder != (contract.Holder{}) ||
		x.Facts[1].Code != contract.FactStepPending {
		t.Errorf("Explain returned %+v, %v", x, err)
	}
}

// TestExplainNamesADamagedProbe checks that Explain of a ready job returns corrupt if the record of the job was cut for
// whose end the shard waits. The error names that job.
//
// C13.15
func TestExplainNamesADamagedProbe(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 3, 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			r.push(duly.Job{Body: []byte("probe")}, duly.Job{Body: []byte("job")})
			r.locate()
			v, probe := victim{r, r.jobs["job"], "job"}, victim{r, r.jobs["probe"], "probe"}
			must(t, r.e.Configure(t.Context(), damageQueue, duly.QueueConfig{MaxLeased: 5, Adapt: duly.Adapt{Floor: 0.1}}))
			_, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 1})
			must(t, err)
			end := r.clock.Now().UnixMilli() + 30_000
			numbers := "1 1" + strings.Repeat(" 0", 18) + fmt.Sprintf(" 1 %d", end)
			probe.on("HSET", "tally", "limiter", numbers+";"+probe.number)
			probe.on("HSET", "records", probe.number, probe.hash("records", probe.number)[:size])

			x, err := r.e.Explain(t.Context(), damageQueue, v.id())
			if duly.CodeOf(err) != duly.CodeCorrupt || !strings.Contains(err.Error(), probe.id()) ||
				!strings.Contains(err.Error(), "duly check --repair") {
				t.Errorf("Explain returned %+v, %v", x, err)
			}
		})
	}
}

// TestExplainOfADamagedJob checks that Explain returns the same error as Get if the record of the job itself was cut.
//
// C13.15
func TestExplainOfADamagedJob(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 3, 7, 9} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			r.push(duly.Job{ID: "own", Body: []byte("job"), OrderKey: "k"})
			r.locate()
			v := victim{r, r.jobs["job"], "job"}
			v.on("HSET", "records", v.number, v.hash("records", v.number)[:size])
			for _, id := range []string{"own", v.id()} {
				_, get := r.e.Get(t.Context(), damageQueue, id)
				_, err := r.e.Explain(t.Context(), damageQueue, id)
				if duly.CodeOf(err) != duly.CodeOf(get) || fmt.Sprint(err) != fmt.Sprint(get) {
					t.Errorf("%s: Explain returned %v, Get %v", id, err, get)
				}
			}
		})
	}
}
