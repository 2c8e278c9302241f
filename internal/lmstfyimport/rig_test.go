package lmstfyimport

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/internal/redistest"
)

// rig is a Redis with lmstfy's keys, and an engine in memory.
type rig struct {
	t      *testing.T
	redis  *redistest.Server
	source *Source
	engine *model.Engine
	clock  *clock.Fake
	now    time.Time // time of the Redis at the start of the test
	ids    int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	redis := redistest.Single(t)
	source, err := Open(t.Context(), redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	c := clock.NewFake()
	r := &rig{t: t, redis: redis, source: source, engine: model.New(model.Config{Clock: c, Manual: true}), clock: c}
	t.Cleanup(func() { r.engine.Close() })
	if r.now, err = source.now(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// id returns a new ID in lmstfy's form.
func (r *rig) id(versioned bool) string {
	r.ids++
	id := fmt.Sprintf("01HF7YAT0004106105%08d", r.ids)
	if versioned {
		return "1" + id
	}
	return id
}

// job stores a job with lmstfy's keys, but in no list. A ttl of 0 means no ttl.
func (r *rig) job(ns, q, id, text string, ttl time.Duration) {
	key := "j/" + ns + "/" + q + "/" + id
	if ttl > 0 {
		r.redis.Must("SET", key, text, "PX", ttl.Milliseconds())
	} else {
		r.redis.Must("SET", key, text)
	}
	r.redis.Must("HSET", "m/ns", ns, "1")
	r.redis.Must("HSET", "m/ns/"+ns, q, "1")
}

// ready adds a job to the list of a queue.
func (r *rig) ready(ns, q, id string, tries int) {
	r.redis.Must("LPUSH", "q/"+ns+"/"+q, le(tries)+packed(id))
}

// dead adds a job to the dead letters of a queue.
func (r *rig) dead(ns, q, id string) {
	r.redis.Must("LPUSH", "d/"+ns+"/"+q, le(1)+packed(id))
}

// buried stores a new job in the dead letters of a queue and returns its ID.
func (r *rig) buried(ns, q string) (id string) {
	id = r.id(false)
	r.job(ns, q, id, "x", 0)
	r.dead(ns, q, id)
	return id
}

// timer adds a job to the timer set.
func (r *rig) timer(ns, q, id string, tries int, due time.Time) {
	r.redis.Must("ZADD", "timer_set", due.Unix(), packed(ns, q)+le(tries)+packed(id))
}

func hash(namespace, text string) [32]byte { return sha256.Sum256([]byte(namespace + "\x00" + text)) }

func (r *rig) importer() *Importer {
	return &Importer{
		Source: r.source, Admin: r.source, Pool: "default", Hash: hash,
		Target: func(context.Context, string) (contract.Engine, error) { return r.engine, nil },
		AddToken: func(ctx context.Context, t contract.Token) error {
			if _, err := r.engine.FindToken(ctx, t.Hash); err == nil {
				return duly.ErrConflict
			}
			return r.engine.PutToken(ctx, t)
		},
	}
}

func (r *rig) run(im *Importer) Report {
	r.t.Helper()
	report, err := im.Run(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// runInto imports into an engine, with a journal.
func (r *rig) runInto(path string, engine contract.Engine) (Report, error) {
	r.t.Helper()
	journal, err := OpenJournal(path, "x")
	if err != nil {
		r.t.Fatal(err)
	}
	defer journal.Close()
	im := r.importer()
	im.Journal = journal
	im.Target = func(context.Context, string) (contract.Engine, error) { return engine, nil }
	return im.Run(r.t.Context())
}

func (r *rig) get(ns, q, id string) duly.JobInfo {
	r.t.Helper()
	j, err := r.engine.Get(r.t.Context(), duly.QueueRef{Namespace: ns, Name: q}, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
