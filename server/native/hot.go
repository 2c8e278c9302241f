package native

import (
	"context"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/cancelfeed"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/route"
)

// Config configures an API.
type Config struct {
	// Engine, Poll and Clock must be set. Poll reserves jobs of the engine.
	Engine contract.Engine
	Poll   *poll.Poll
	Clock  duly.Clock
	// Surveyor surveys the engine, Finder finds its jobs, Explainer explains what holds them back, and
	// Keys lists its order keys. Removed has the feeds of its removed jobs.
	Surveyor  contract.Surveyor
	Finder    contract.Finder
	Explainer contract.Explainer
	Keys      contract.KeyLister
	Removed   *cancelfeed.Feeds
	// Topics are the topics of the engine, or nil if it has none.
	Topics contract.Topics
	// Scheduler has the schedules of the engine. It is nil if the engine has no schedules.
	Scheduler duly.Scheduler
	// Stepper runs the steps of a trim. Nil: trim is unsupported.
	Stepper Stepper
	// Polling, if set, is called with 1 when a request begins to wait for a message,
	// and with -1 when it ends.
	Polling func(n int)
	// Push is HTTP push. The zero value means that the server has no HTTP push.
	Push Push
	// CheckDestination, if set, returns an error for a URL that may not be called.
	CheckDestination func(field, destination string) error
	// Operations are the bulk operations of the server.
	Operations *operations.Manager
	// Targeted, if set, is called after the configuration of a group's target.
	Targeted func()
}

// Stepper is the part of [contract.Maintainer] that trims.
type Stepper interface {
	// Step is the method of [contract.Maintainer].
	Step(ctx context.Context, q duly.QueueRef) (more bool, err error)
}

// API serves an engine.
type API struct {
	cfg      Config
	engine   contract.Engine
	surveyor contract.Surveyor
	poll     *poll.Poll
	removed  *cancelfeed.Feeds
}

// New returns the API of an engine.
func New(cfg Config) *API {
	// Handlers call these functions without a check for nil.
	if cfg.Polling == nil {
		cfg.Polling = func(int) {}
	}
	if cfg.Targeted == nil {
		cfg.Targeted = func() {}
	}
	return &API{cfg: cfg, engine: cfg.Engine, poll: cfg.Poll, surveyor: cfg.Surveyor, removed: cfg.Removed}
}

func (a *API) push(c *route.Call) error {
	text, err := c.Body()
	if err != nil {
		return err
	}
	jobs, err := wire.ReadPush(text, c.Namespace)
	if err != nil {
		return err
	}

	// A bad destination refuses only its job, not the batch.
	a.checkJobs(&jobs)
	results, err := callWithGood(&jobs, func(good []duly.Job) ([]duly.PushResult, error) {
		return a.engine.Push(c.Context(), good)
	}, func(err error) duly.PushResult { return duly.PushResult{Err: err} })
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PushedForm.Append(c.Out(), results))
}

// pushOne pushes a single job. An error of the job is the error of the request, so that the
// caller needs only the status.
func (a *API) pushOne(c *route.Call) error {
	text, err := c.Body()
	if err != nil {
		return err
	}
	job, err := wire.ReadPushOne(text, queue(c))
	if err != nil {
		return err
	}

	if err := a.checkJob(&job); err != nil {
		return err
	}
	results, err := a.engine.Push(c.Context(), []duly.Job{job})
	if err != nil {
		return err
	}
	// A single job has no list of results, so its error becomes the answer.
	if results[0].Err != nil {
		return results[0].Err
	}

	return c.Reply(http.StatusOK, wire.PushedOneForm.Append(c.Out(), results[0]))
}

func (a *API) settle(c *route.Call) error {
	outcomes, err := route.Read(c, wire.ReadSettle)
	if err != nil {
		return err
	}
	errs, err := callWithGood(&outcomes, func(good []duly.SettleRequest) ([]error, error) {
		return a.engine.Settle(c.Context(), c.Namespace, good)
	}, func(err error) error { return err })
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.ResultsForm.Append(c.Out(), errs))
}

// callWithGood calls an engine with the items that have no error yet. It returns one result per
// item: that of the engine, or the error of the item.
func callWithGood[T, R any](items *wire.Items[T], call func([]T) ([]R, error), failed func(error) R) ([]R, error) {
	// No item has an error in the common case, which needs no copy.
	good := items.Good()
	if good == nil {
		return call(items.Values)
	}

	// The engine gets only the good items, so results and items have different indexes.
	values := make([]T, len(good))
	for k, i := range good {
		values[k] = items.Values[i]
	}
	var called []R
	if len(values) > 0 {
		var err error
		if called, err = call(values); err != nil {
			return nil, err
		}
	}

	results := make([]R, len(items.Values))
	for i, err := range items.Errs {
		if err != nil {
			results[i] = failed(err)
		}
	}
	for k, i := range good {
		results[i] = called[k]
	}
	return results, nil
}

func (a *API) extend(c *route.Call) error {
	e, err := route.Read(c, wire.ReadExtend)
	if err != nil {
		return err
	}
	errs, err := a.engine.Extend(c.Context(), c.Namespace, e.Receipts, e.Lease)
	if err != nil {
		return err
	}
	// A sweep has to come when this lease may end.
	if e.Lease > 0 {
		a.poll.Leased(e.Lease)
	}
	return c.Reply(http.StatusOK, wire.ResultsForm.Append(c.Out(), errs))
}

func (a *API) wait(c *route.Call) error {
	text, err := c.Body()
	if err != nil {
		return err
	}
	p, err := wire.ReadWait(text, c.Namespace)
	if err != nil {
		return err
	}

	ready, err := a.poll.Wait(c, p)
	if err != nil {
		return err
	}
	err = c.ReplyNow(http.StatusOK, wire.ReadyForm.Append(c.Out(), ready))
	// The caller does not learn that a job is ready, so another caller must reserve the job.
	if ready && err != nil {
		a.poll.Pass(c, p)
	}
	return err
}

// canceled answers a request with the jobs that were removed after a cursor. A caller whose answer
// is lost repeats the request.
func (a *API) canceled(c *route.Call) error {
	ask, err := route.Read(c, wire.CanceledAskForm.ReadRequest)
	if err != nil {
		return err
	}
	// Invalid parameters are refused at once, and not after the wait.
	if err := ask.Validate(); err != nil {
		return err
	}
	if err := contract.ValidateNamespace(c.Namespace); err != nil {
		return err
	}

	var answer wire.Canceled
	_, err = poll.Until(c, func(ctx context.Context) error {
		reports, err := a.removed.Poll(ctx, c.Namespace, cancelfeed.Query(ask))
		answer = wire.Canceled(reports)
		return err
	})
	if err != nil {
		return err
	}

	// A waiting call uses no memory for an answer, so memory is reserved only now.
	size := wire.SizeOfCanceled(answer)
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.CanceledForm.Append(c.Room(size), answer))
}

func (a *API) reserve(c *route.Call) error {
	text, err := c.Body()
	if err != nil {
		return err
	}
	q, err := wire.ReadReserve(text, c.Namespace)
	if err != nil {
		return err
	}

	// A fault is reported before the call waits, also if a job is ready.
	wait := duly.WaitParams{Namespace: c.Namespace, Queues: q.Queues, Timeout: q.Wait}
	if err := contract.ValidateWait(&wait); err != nil {
		return err
	}
	deliveries, err := a.poll.Reserve(c, poll.Params{ReserveParams: q.ReserveParams, Wait: q.Wait})
	if err != nil {
		return err
	}
	if len(deliveries) == 0 {
		return c.Reply(http.StatusOK, wire.DeliveriesForm.Append(c.Out(), nil))
	}

	// If the caller has left, Deliver releases the jobs.
	return a.poll.Deliver(c, deliveries, wire.SizeOfDeliveries(deliveries), func(out []byte) []byte {
		return wire.DeliveriesForm.Append(out, deliveries)
	})
}
