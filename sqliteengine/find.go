package sqliteengine

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The calls that read several jobs by their IDs.

// Find implements contract.Finder. One statement looks up the queues that have the job, and the
// same snapshot reads the jobs.
func (e inspectorAPI) Find(ctx context.Context, namespace, id string) (found contract.Found, err error) {
	if err := contract.ValidateFind(namespace, id); err != nil {
		return found, err
	}
	err = e.read(ctx, func(c *conn) (err error) {
		found, err = e.newReadTx(c).findInQueues(contract.NamespaceOr(namespace), id)
		return err
	})
	if err != nil {
		return contract.Found{}, err
	}
	return found.OrNotFound(namespace, id)
}

// findInQueues returns the jobs with an ID in the queues of a namespace.
func (t readTx) findInQueues(namespace, id string) (found contract.Found, err error) {
	rows := t.stmt("queues_with").Text(1, namespace).Text(2, id)
	// A job without an alias has its number as its ID. The empty number belongs to no job.
	number, _ := duly.ParseNumber(id)
	rows.Blob(3, number[:])
	defer rows.Reset()

	for {
		row, err := rows.Step()
		if err != nil || !row {
			return found, err
		}
		q, err := t.readQueue(duly.QueueRef{Namespace: namespace, Name: rows.ColText(0)})
		if err != nil {
			return found, err
		}
		j, err := q.byID(t.tx, id)
		if err != nil {
			return found, err
		}

		// The job has expired, or the job with this number has another ID.
		var info duly.JobInfo
		err = t.foundInfo(q, j, id, &info)
		if errors.Is(err, duly.ErrNotFound) {
			continue
		}
		if err != nil || !found.Add(info) {
			return found, err
		}
	}
}

// GetJobs implements contract.Inspector.
func (e inspectorAPI) GetJobs(
	ctx context.Context, ref duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}
	r := jobsReader{ref: ref, ids: copyList(ctx, ids), bodies: bodies}
	if err := e.onLongSnapshot(ctx, ref, r.read); err != nil {
		return nil, err
	}
	return r.results, nil
}

// jobsReader is one call to GetJobs.
type jobsReader struct {
	ref     duly.QueueRef
	ids     []string
	bodies  bool
	room    contract.JobRoom
	results []contract.JobResult
}

// read reads jobs until the last one or the end of the slice. It reports whether more jobs follow.
func (r *jobsReader) read(t readTx, q *queue, s *readSlice) (more bool, err error) {
	for len(r.results) < len(r.ids) {
		info, err := r.get(t, q, r.ids[len(r.results)])
		// Any other error fails the whole call.
		if failureOnly(err) != nil {
			return false, err
		}
		r.results = append(r.results, contract.JobResult{Info: info, Err: err})
		if s.timeUp() {
			return len(r.results) < len(r.ids), nil
		}
	}
	return false, nil
}

// get returns one job. q is nil for an unknown queue.
func (r *jobsReader) get(t readTx, q *queue, id string) (info duly.JobInfo, err error) {
	if err := contract.ValidateID(id); err != nil {
		return info, err
	}
	if q == nil {
		return info, contract.NotFound(r.ref, id)
	}
	j, err := q.byID(t.tx, id)
	if err != nil {
		return info, err
	}
	if j == nil || j.expired(t.now) {
		return info, notFoundIn(q, id)
	}

	// The size is read first, so that no body is read in vain.
	size, err := t.bodySize(j)
	switch {
	case err == errGone:
		return info, notFoundIn(q, id)
	case err != nil:
		return info, err
	case r.bodies && !r.room.Take(size+len(j.result)):
		return info, contract.NoRoom(id)
	case r.bodies:
		err = j.readBody(t.conn)
	}
	if err != nil {
		return info, err
	}

	state, err := j.currentState(t.tx)
	if info = j.info(state, size); !r.bodies {
		info.Body, info.Result = nil, nil
	}
	return info, err
}
