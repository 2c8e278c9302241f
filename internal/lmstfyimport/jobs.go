package lmstfyimport

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// page is the number of entries in one read. The bodies of the entries are read in batches that
	// fit into one push.
	page      = 500
	maxPasses = 10
	// batchBytes ends a batch of jobs. A push may have duly.MaxBatchBytes, and its JSON.
	batchBytes = 4 << 20
	batchJobs  = 100
)

// importLists imports the jobs of a queue's two lists, the list of dead jobs first.
func (im *Importer) importLists(ctx context.Context, q duly.QueueRef) error {
	for _, list := range []struct {
		key  string
		kind duly.State
	}{{"d/", duly.StateDead}, {"q/", duly.StateReady}} {
		seen := map[string]bool{}
		for pass := 0; ; pass++ {
			found, err := im.importPass(ctx, q, list.key+q.String(), list.kind, seen)
			if err != nil {
				return err
			}
			if found == 0 {
				break
			}
			if pass == maxPasses {
				im.report.skip(whyMoving, "queue "+q.String())
				break
			}
		}
	}

	return nil
}

// importPass reads a list once, from its old end, and imports the entries that are not in seen.
func (im *Importer) importPass(
	ctx context.Context, q duly.QueueRef, key string, kind duly.State, seen map[string]bool,
) (found int, err error) {
	for at := 0; ; at += page {
		items, err := im.Source.do(ctx, "LRANGE", key, strconv.Itoa(-at-page), strconv.Itoa(-at-1)).AsStrSlice()
		if err != nil {
			return found, failed(err)
		}

		var fresh []listed
		for i := len(items) - 1; i >= 0; i-- {
			if seen[items[i]] {
				continue
			}
			// A later pass must not report this entry again, even if it is unreadable.
			seen[items[i]] = true
			e, ok := unpackEntry(items[i])
			if !ok {
				im.report.skip(whyForm, fmt.Sprintf("an entry of queue %s", q))
				continue
			}
			fresh = append(fresh, listed{entry: e, kind: kind})
		}

		found += len(fresh)
		im.progress(len(fresh))
		if err := im.importEntries(ctx, q, fresh); err != nil {
			return found, err
		}
		// A short page is the end of the list.
		if len(items) < page {
			return found, nil
		}
	}
}

// importTimers imports the jobs of the timer set.
func (im *Importer) importTimers(ctx context.Context) error {
	seen := map[string]bool{}
	options := []string{"COUNT", strconv.Itoa(page)}
	return im.Source.scan(ctx, []string{"ZSCAN", "timer_set"}, options, func(items []string) error {
		// Each push goes to one queue.
		byQueue := map[duly.QueueRef][]listed{}
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
				im.report.skip(whyForm, "an entry of the timer set")
			case !im.chosen(e.namespace):
			case contract.ValidateQueue(q) != nil:
				im.report.skip(whyName, "queue "+q.String())
			default:
				// The scores are whole seconds.
				due := time.Unix(int64(score), 0)
				byQueue[q] = append(byQueue[q], listed{entry: e, kind: duly.StateDelayed, due: due})
			}
		}

		for q, entries := range byQueue {
			if err := im.importEntries(ctx, q, entries); err != nil {
				return err
			}
		}
		return nil
	})
}

// listed is an entry with its state.
type listed struct {
	entry
	kind duly.State // the state ready, delayed or dead
	due  time.Time  // due time of a delayed job
}

// importEntries imports jobs of one queue, in batches.
func (im *Importer) importEntries(ctx context.Context, q duly.QueueRef, entries []listed) error {
	for len(entries) > 0 {
		n := min(len(entries), batchJobs)
		if err := im.importBatch(ctx, q, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func (im *Importer) importBatch(ctx context.Context, q duly.QueueRef, entries []listed) error {
	var fresh []listed
	for _, e := range entries {
		if im.Journal.has(q, e.id) {
			im.report.Known++
		} else {
			fresh = append(fresh, e)
		}
	}

	plain := make([]entry, len(fresh))
	for i := range fresh {
		plain[i] = fresh[i].entry
	}
	bodies, err := im.Source.read(ctx, q.Namespace, q.Name, plain)
	if err != nil {
		return err
	}

	// Delays count from the push, which comes next.
	if im.now, err = im.Source.now(ctx); err != nil {
		return err
	}

	var jobs []importJob
	size := 0
	for i := range fresh {
		job, ok := im.convert(q, fresh[i], bodies[i])
		if !ok {
			continue
		}
		// A single body may exceed the limit. It is pushed alone.
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

// importJob is a job to push.
type importJob struct {
	duly.Job
	kind duly.State
}

// convert converts a job to what the lmstfy API publishes, with the rest of its tries and of its
// ttl. ok is false for a job that is not imported.
func (im *Importer) convert(q duly.QueueRef, e listed, s stored) (job importJob, ok bool) {
	what := fmt.Sprintf("job %.40q of queue %s", e.id, q)
	if s.gone {
		im.report.Gone++
		return job, false
	}

	p, ok := unpackPayload(e.id, s.text)
	if !ok || contract.ValidateID(e.id) != nil {
		im.report.skip(whyForm, what)
		return job, false
	}

	job = importJob{kind: e.kind, Job: duly.Job{
		ID: e.id, Namespace: q.Namespace, Queue: q.Name, Body: p.Body, Headers: p.Attributes,
		Tries: max(1, e.tries), MaxStalls: duly.None, Backoff: duly.Fixed(0), TTL: duly.None,
	}}
	switch {
	// A dead job keeps neither its delay nor its TTL.
	case e.kind == duly.StateDead:
		return job, true
	case e.tries == 0 && e.due.After(im.now):
		im.report.skip(whyConsumed, what)
		return job, false
	case e.tries == 0: // the consumer has the last try, so lmstfy is about to bury the job
		job.kind = duly.StateDead
		return job, true
	}

	if s.ttl > 0 {
		job.TTL = s.ttl
	}
	if e.kind == duly.StateDelayed {
		job.Delay = max(0, e.due.Sub(im.now))
	}
	// The job would also expire in duly before it is due.
	if s.ttl > 0 && s.ttl < job.Delay {
		im.report.skip(whyExpires, what)
		return job, false
	}

	return job, true
}
