package native

import (
	"net/http"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// queue returns the queue of the path. The engine validates its name.
func queue(c *route.Call) duly.QueueRef {
	return duly.QueueRef{Namespace: c.Namespace, Name: c.PathValue("queue")}
}

func (a *API) queues(c *route.Call) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	stats, err := boolParam(c, "stats")
	if err != nil {
		return err
	}
	// Statistics need reads of every queue, so a list has them only on request.
	if stats {
		return a.survey(c, p)
	}
	names, err := a.engine.Queues(c.Context(), c.Namespace, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendNames(c.Out(), "queues", names))
}

// queueBytes bounds the size of a queue in the answer to a survey.
const queueBytes = 1 << 10

func (a *API) survey(c *route.Call, p duly.PageParams) error {
	// The reserved memory depends on the limit, so the default is filled in here.
	if p.Limit == 0 {
		p.Limit = duly.DefaultPage
	}
	if err := c.ReserveMemory(int64(p.Limit) * queueBytes); err != nil {
		return err
	}
	queues, err := a.surveyor.Survey(c.Context(), c.Namespace, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.QueuesForm.Append(c.Room(len(queues.Queues)*queueBytes), queues))
}

// boolParam returns a query parameter. It returns false if the parameter is absent.
func boolParam(c *route.Call, name string) (bool, error) {
	text := c.Query(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, contract.Invalid(name, "must be true or false")
	}
	return value, nil
}

func (a *API) queue(c *route.Call) error {
	q := queue(c)
	config, err := a.engine.Config(c.Context(), q)
	if err != nil {
		return err
	}
	stats, err := a.engine.Stats(c.Context(), q)
	if err != nil {
		return err
	}
	found := wire.Queue{Name: q.Name, Config: config, Stats: stats}
	return c.Reply(http.StatusOK, wire.QueueForm.Append(c.Out(), found))
}

func (a *API) configure(c *route.Call) error {
	patch, err := route.Read(c, wire.ConfigForm.ReadRequest)
	if err != nil {
		return err
	}
	// The engine stores any URL. Only the server knows which URLs it may call.
	if err := a.checkDestinations("push_url", patch.Push.URL, patch.Push.OnDone, patch.Push.OnDead); err != nil {
		return err
	}
	if err := a.engine.Configure(c.Context(), queue(c), patch); err != nil {
		return err
	}
	// A group with a target needs a bridge, which the server starts.
	if patch.Group.Target != "" {
		a.cfg.Targeted()
	}
	return c.Empty()
}

// plain returns a handler for an operation on a queue that has no parameters and no result.
func (a *API) plain(operate func(*route.Call, duly.QueueRef) error) route.Handler {
	return func(c *route.Call) error {
		// A field in the body would have no effect, so it is refused before the operation.
		err := empty(c)
		if err == nil {
			err = operate(c, queue(c))
		}
		if err != nil {
			return err
		}
		return c.Empty()
	}
}

// empty reads the request of an operation without parameters.
func empty(c *route.Call) error {
	text, err := c.Body()
	if err != nil {
		return err
	}
	return wire.ReadEmpty(text)
}

func (a *API) pause(c *route.Call, q duly.QueueRef) error  { return a.engine.Pause(c.Context(), q) }
func (a *API) resume(c *route.Call, q duly.QueueRef) error { return a.engine.Resume(c.Context(), q) }

func (a *API) destroy(c *route.Call, q duly.QueueRef) error {
	return a.engine.Destroy(c.Context(), q)
}

func (a *API) requeue(c *route.Call) error {
	p, err := route.Read(c, wire.RequeueForm.ReadRequest)
	if err != nil {
		return err
	}
	results, err := a.engine.Requeue(c.Context(), queue(c), p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.RequeuedForm.Append(c.Out(), results))
}

func (a *API) purge(c *route.Call) error {
	p, err := route.Read(c, wire.PurgeForm.ReadRequest)
	if err != nil {
		return err
	}
	n, err := a.engine.Purge(c.Context(), queue(c), p.State, p.N)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PurgedForm.Append(c.Out(), n))
}
