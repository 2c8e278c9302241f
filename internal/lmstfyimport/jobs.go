package lmstfyimport

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// page is how many entries are read at once; their bodies are read in parts
// that have room in one push.
const (
	page       = 500
	mostPasses = 10
	// batchBytes is where a batch of jobs ends: a push may carry
	// duly.MaxBatchBytes, and JSON around it.
	batchBytes = 4 << 20
	batchJobs  = 100
)

// lists takes what a queue's two lists have, the dead first.
func (im *Importer) lists(ctx context.Context, q duly.QueueRef) error {
	for _, list := range []struct {
		key  string
		kind duly.State
	}{{"d/", duly.StateDead}, {"q/", duly.StateReady}} {
		seen := map[string]bool{}
		for pass := 0; ; pass++ {
			found, err := im.pass(ctx, q, list.key+q.String(), list.kind, seen)
			if err != nil {
				return err
			}
			if found == 0 {
				break
			}
			if pass == mostPasses {
				im.report.leave(whyMoving, "queue "+q.String())
				break
			}
		}
	}

	return nil
}

// pass walks over a list once, from its old end, and takes what is not seen
// yet.
func (im *Importer) pass(ctx context.Context, q duly.QueueRef, key string, kind duly.State, seen map[string]bool) (found int, err error) {
	for at := 0; ; at += page {
		items, err := im.Source.do(ctx, "LRANGE", key, strconv.Itoa(-at-page), strconv.Itoa(-at-1)).AsStrSlice()
		if err != nil {
			return found, failed(err)
		}

		var fresh []waiting
		for i := len(items) - 1; i >= 0; i-- {
			if seen[items[i]] {
				continue
			}
			seen[items[i]] = true
			e, ok := unpackEntry(items[i])
			if !ok {
				im.report.leave(whyForm, fmt.Sprintf("an entry of queue %s", q))
				continue
			}
			fresh = append(fresh, waiting{entry: e, kind: kind})
		}

		found += len(fresh)
		im.progress(len(fresh))
		if err := im.take(ctx, q, fresh); err != nil {
			return found, err
		}
		if len(items) < page {
			return found, nil
		}
	}
}

// timers takes what the timer set has.
func (im *Importer) timers(ctx context.Context) error {
	seen := map[string]bool{}
	return im.Source.scan(ctx, []string{"ZSCAN", "timer_set"}, []string{"COUNT", strconv.Itoa(page)}, func(items []string) error {
		byQueue := map[duly.QueueRef][]waiting{}
		for ; len(items) > 1; items = items[2:] {
			if seen[items[0]] {
				continue
			}
			seen[items[0]] = true
			im.progress(1)
			e, ok := unpackTimer(items[0])
			score, err := strconv.ParseFloat(items[1], 64)
			q := duly.QueueRef{Namespace: e.namespace, Name: e.queue}
			switch {
			case !ok || err != nil:
				im.report.leave(whyForm, "an entry of the timer set")
			case !im.chosen(e.namespace):
			case contract.ValidateQueue(q) != nil:
				im.report.leave(whyName, "queue "+q.String())
			default:
				byQueue[q] = append(byQueue[q], waiting{entry: e, kind: duly.StateDelayed, due: time.Unix(int64(score), 0)})
			}
		}

		for q, entries := range byQueue {
			if err := im.take(ctx, q, entries); err != nil {
				return err
			}
		}
		return nil
	})
}

// waiting is an entry, and where it stands.
type waiting struct {
	entry
	kind duly.State // ready, delayed or dead
	due  time.Time  // of a delayed one
}

// take brings jobs of one queue over: it reads them in batches and pushes each.
func (im *Importer) take(ctx context.Context, q duly.QueueRef, entries []waiting) error {
	for len(entries) > 0 {
		n := min(len(entries), batchJobs)
		if err := im.batch(ctx, q, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func (im *Importer) batch(ctx context.Context, q duly.QueueRef, entries []waiting) error {
	var some []waiting
	for _, e := range entries {
		if im.Journal.has(q, e.id) {
			im.report.Known++
		} else {
			some = append(some, e)
		}
	}

	plain := make([]entry, len(some))
	for i := range some {
		plain[i] = some[i].entry
	}
	bodies, err := im.Source.read(ctx, q.Namespace, q.Name, plain)
	if err != nil {
		return err
	}

	if im.now, err = im.Source.now(ctx); err != nil { // delays count from the push
		return err
	}

	var jobs []taken
	size := 0
	for i := range some {
		job, ok := im.job(q, some[i], bodies[i])
		if !ok {
			continue
		}
		if size += len(job.Body); size > batchBytes && len(jobs) > 0 {
			if err := im.store(ctx, q, jobs); err != nil {
				return err
			}
			jobs, size = nil, len(job.Body)
		}
		jobs = append(jobs, job)
	}

	return im.store(ctx, q, jobs)
}

// taken is a job that is to be pushed.
type taken struct {
	duly.Job
	kind duly.State
}

// job is an entry's as the contract has it: what lmstfy's publish makes, with
// what is left of its tries and its time.
func (im *Importer) job(q duly.QueueRef, e waiting, s stored) (job taken, ok bool) {
	what := fmt.Sprintf("job %.40q of queue %s", e.id, q)
	if s.gone {
		im.report.Gone++
		return job, false
	}

	p, ok := unpackPayload(e.id, s.text)
	if !ok || contract.ValidateID(e.id) != nil {
		im.report.leave(whyForm, what)
		return job, false
	}

	job = taken{kind: e.kind, Job: duly.Job{
		ID: e.id, Namespace: q.Namespace, Queue: q.Name, Body: p.Body, Headers: p.Attributes,
		Tries: max(1, e.tries), MaxStalls: duly.None, Backoff: duly.Fixed(0), TTL: duly.None,
	}}
	switch {
	case e.kind == duly.StateDead:
		return job, true
	case e.tries == 0 && e.due.After(im.now):
		im.report.leave(whyHeld, what)
		return job, false
	case e.tries == 0: // its last try is over: lmstfy is about to bury it
		job.kind = duly.StateDead
		return job, true
	}

	if s.ttl > 0 {
		job.TTL = s.ttl
	}
	if e.kind == duly.StateDelayed {
		job.Delay = max(0, e.due.Sub(im.now))
	}
	if s.ttl > 0 && s.ttl < job.Delay {
		im.report.leave(whyExpires, what)
		return job, false
	}

	return job, true
}
