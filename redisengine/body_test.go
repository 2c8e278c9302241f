package redisengine_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine"
)

// TestDamagedBodyIsNotDelivered checks that a large job whose body is lost or cut is not
// delivered (fault P6). Reads of the job fail, the log names it, and a repair keeps the rest.
func TestDamagedBodyIsNotDelivered(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, shards int) {
		for name, harm := range map[string]func(v victim){
			"Lost": func(v victim) {
				v.on("HDEL", "bodies", v.number)
				v.gone[v.name] = true
			},
			"Cut": func(v victim) { v.on("HSET", "bodies", v.number, v.hash("bodies", v.number)[:1000]) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := openDamaged(t, shards, clock.NewFake())
				r.push(duly.Job{Body: []byte("large" + strings.Repeat(".", 9<<10))})
				r.locate()
				v := victim{r, r.jobs["large"], "large"}
				harm(v)
				v.refused()
				v.passedOver()
				r.findAndMend("body_missing")
			})
		}
	})
}

// id returns the ID of a job without a caller's ID.
func (v victim) id() string { return duly.Number([]byte(v.number)).String() }

// refused checks that reads of the job fail as damaged. A List without bodies still returns the
// job.
func (v victim) refused() {
	v.Helper()
	ctx, priority := v.Context(), 1
	_, get := v.e.Get(ctx, damageQueue, v.id())
	_, peek := v.e.Peek(ctx, damageQueue)
	_, list := v.e.List(ctx, damageQueue, duly.ListParams{State: duly.StateReady, Bodies: true})
	update := v.e.Update(ctx, damageQueue, v.id(), duly.Update{Priority: &priority})
	for call, err := range map[string]error{"Get": get, "Peek": peek, "List": list, "Update": update} {
		if duly.CodeOf(err) != duly.CodeCorrupt || !strings.Contains(err.Error(), v.id()) ||
			!strings.Contains(err.Error(), "duly check --repair") {
			v.Errorf("%s returned %v, want %s that names the job and how to fix it", call, err, duly.CodeCorrupt)
		}
	}
	page, err := v.e.List(ctx, damageQueue, duly.ListParams{State: duly.StateReady})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != v.id() || page.Jobs[0].Size < 9<<10 {
		v.Errorf("a list without bodies returned %+v, %v", page, err)
	}
}

// passedOver checks that a reserve does not deliver the job, and that the log names it.
func (v victim) passedOver() {
	v.Helper()
	var log bytes.Buffer
	e, err := redisengine.Open(v.Context(), redisengine.Config{
		URL: withPrefix(v.server.URL(), v.prefix), Clock: v.clock, Manual: true,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	must(v.T, err)
	got, err := e.Reserve(v.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 10, Lease: time.Second})
	if len(got) > 0 || duly.CodeOf(err) != duly.CodeCorrupt {
		v.Errorf("Reserve returned %d jobs, %v", len(got), err)
	}
	must(v.T, e.Close())
	if !strings.Contains(log.String(), "number="+v.id()) {
		v.Errorf("the log does not name the job %s: %s", v.id(), log.String())
	}
}

// TestReserveReportsAnEntryOfTheWrongSize checks that a Reserve delivers no job under a wrong ID if
// another program has put an entry of another size into the ready jobs. The jobs come again after
// their leases.
//
// C13.15
func TestReserveReportsAnEntryOfTheWrongSize(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]any{
		"Short": {-2, "short"}, "Long": {-2, strings.Repeat("long", 20)}, "Several": {-2, "8 bytes.", -1, "8 others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			r.push(duly.Job{Body: []byte("a")}, duly.Job{Body: []byte("b"), Lease: time.Minute})
			r.locate()
			r.do(append([]any{"ZADD", r.key(0, "ready")}, entries...)...)

			got, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: 10})
			if len(got) > 0 || duly.CodeOf(err) != duly.CodeCorrupt || !strings.Contains(err.Error(), "duly check --repair") {
				t.Fatalf("Reserve returned %+v, %v", got, err)
			}
			r.clock.Advance(time.Hour)
			r.drain()
			r.sound()
		})
	}
}
