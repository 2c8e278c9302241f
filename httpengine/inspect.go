package httpengine

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// maxCursor is longer than any cursor, in bytes, and short enough for a URL.
const maxCursor = 4 << 10

// Get implements contract.Inspector.
func (e *Engine) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	if err := e.beginJob(q, id); err != nil {
		return duly.JobInfo{}, err
	}
	defer e.calls.Done()
	return e.job(ctx, e.jobPath(q, id))
}

// Find implements contract.Finder, with one request.
func (e *Engine) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	if err := e.begin(namespace); err != nil {
		return contract.Found{}, err
	}
	defer e.calls.Done()
	// The ID becomes a part of the path.
	if err := contract.ValidateFind(namespace, id); err != nil {
		return contract.Found{}, err
	}

	r := request{method: "GET", path: e.base + "/jobs/" + id, max: maxJobs}
	return fetch(ctx, e.link, r, func(text string) (contract.Found, error) {
		return wire.ReadFound(text, e.link.namespace)
	})
}

// Explain implements contract.Explainer.
func (e *Engine) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	if err := contract.ValidateExplain(q, id); err != nil {
		return contract.Explanation{}, err
	}
	if err := e.beginJob(q, id); err != nil {
		return contract.Explanation{}, err
	}
	defer e.calls.Done()
	r := request{method: "GET", path: e.jobPath(q, id) + "/why", max: maxJobs}
	return fetch(ctx, e.link, r, wire.ExplainForm.ReadAnswer)
}

// GetJobs implements contract.Inspector, with one request.
func (e *Engine) GetJobs(
	ctx context.Context, q duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	if err := e.beginQueue(q); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.ValidateIDs(ids); err != nil {
		return nil, err
	}

	send := func(ids []string) ([]contract.JobResult, error) {
		body := wire.GetJobsForm.Append(nil, wire.GetJobs{IDs: ids, Bodies: bodies})
		r := request{method: "POST", path: e.queuePath(q) + "/jobs/get", body: body, max: maxJobs}
		results, err := fetch(ctx, e.link, r, func(text string) ([]contract.JobResult, error) {
			return wire.ReadGotJobs(text, e.link.namespace)
		})
		if err == nil {
			err = e.link.perID(len(results), ids)
		}
		return results, err
	}
	return sendValid(ids, func(id *string) error { return contract.ValidateID(*id) }, send,
		func(_ *string, err error) contract.JobResult { return contract.JobResult{Err: err} })
}

// GetByReceipt implements contract.Inspector.
func (e *Engine) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	if err := e.begin(namespace); err != nil {
		return duly.JobInfo{}, err
	}
	defer e.calls.Done()
	// The receipt becomes a part of the path.
	if err := contract.ValidateReceipt(r); err != nil {
		return duly.JobInfo{}, err
	}
	return e.job(ctx, e.base+"/receipts/"+string(r))
}

// Peek implements contract.Inspector.
func (e *Engine) Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error) {
	if err := e.beginQueue(q); err != nil {
		return duly.JobInfo{}, err
	}
	defer e.calls.Done()
	return e.job(ctx, e.queuePath(q)+"/peek")
}

func (e *Engine) job(ctx context.Context, path string) (duly.JobInfo, error) {
	r := request{method: "GET", path: path, max: maxJobs}
	return fetch(ctx, e.link, r, func(text string) (duly.JobInfo, error) {
		return wire.ReadJob(text, e.link.namespace)
	})
}

// List implements contract.Inspector.
func (e *Engine) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	if err := e.beginQueue(q); err != nil {
		return duly.ListPage{}, err
	}
	defer e.calls.Done()
	if err := contract.ValidateList(&p); err != nil {
		return duly.ListPage{}, err
	}
	query, err := page(p.PageParams)
	if err != nil {
		return duly.ListPage{}, err
	}
	query.Set("state", p.State.String())
	if p.Bodies {
		query.Set("bodies", "true")
	}
	if p.Newest {
		query.Set("order", "newest")
	}
	if !p.From.IsZero() {
		query.Set("from", p.From.Format(time.RFC3339Nano))
	}
	if p.Key != "" {
		query.Set("key", p.Key)
	}

	r := request{method: "GET", path: e.queuePath(q) + "/jobs", query: query, max: maxJobs}
	return fetch(ctx, e.link, r, func(text string) (duly.ListPage, error) {
		return wire.ReadJobs(text, e.link.namespace)
	})
}

// page returns the query for a page.
func page(p duly.PageParams) (url.Values, error) {
	// The cursor becomes a part of the URL, and servers limit the length of URLs.
	if len(p.Cursor) > maxCursor {
		return nil, contract.BadCursor()
	}
	query := url.Values{"limit": {strconv.Itoa(p.Limit)}}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	return query, nil
}

// Queues implements contract.Inspector.
func (e *Engine) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := e.begin(namespace); err != nil {
		return duly.NamePage{}, err
	}
	defer e.calls.Done()
	return e.link.names(ctx, e.base+"/queues", "queues", p)
}

// Survey implements contract.Surveyor, with one request.
func (e *Engine) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	if err := e.begin(namespace); err != nil {
		return contract.SurveyPage{}, err
	}
	defer e.calls.Done()
	if err := contract.ValidatePage(&p); err != nil {
		return contract.SurveyPage{}, err
	}
	query, err := page(p)
	if err != nil {
		return contract.SurveyPage{}, err
	}

	query.Set("stats", "true")
	r := request{method: "GET", path: e.base + "/queues", query: query}
	return fetch(ctx, e.link, r, wire.ReadSurvey)
}

// names reads a page of names in the list plural.
func (l *link) names(ctx context.Context, path, plural string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidatePage(&p); err != nil {
		return duly.NamePage{}, err
	}
	query, err := page(p)
	if err != nil {
		return duly.NamePage{}, err
	}
	r := request{method: "GET", path: path, query: query}
	return fetch(ctx, l, r, func(text string) (duly.NamePage, error) { return wire.ReadNames(text, plural) })
}

// Stats implements contract.Inspector.
func (e *Engine) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	queue, err := e.queue(ctx, q)
	return queue.Stats, err
}

// Config implements contract.Inspector.
func (e *Engine) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	queue, err := e.queue(ctx, q)
	// An older server has no adaptive limits.
	if queue.Config.Adapt.Floor == 0 {
		queue.Config.Adapt.Floor = duly.None
	}
	return queue.Config, err
}

func (e *Engine) queue(ctx context.Context, q duly.QueueRef) (wire.Queue, error) {
	if err := e.beginQueue(q); err != nil {
		return wire.Queue{}, err
	}
	defer e.calls.Done()
	return fetch(ctx, e.link, request{method: "GET", path: e.queuePath(q)}, wire.QueueForm.ReadAnswer)
}
