package native

import (
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

func (a *API) jobs(c *route.Call) error {
	p, err := readList(c)
	if err != nil {
		return err
	}

	// The engine holds the page in memory, so its bound is reserved before the call.
	if err := c.ReserveMemory(a.pageSize(p)); err != nil {
		return err
	}
	list, err := a.engine.List(c.Context(), queue(c), p)
	if err != nil {
		return err
	}

	// The engine's page is smaller than its bound in most cases, or larger without bodies.
	bodies := 0
	for i := range list.Jobs {
		bodies += len(list.Jobs[i].Body) + len(list.Jobs[i].Result)
	}
	size := wire.SizeOfJobs(list, p.Bodies)
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendJobs(c.Room(size), list, p.Bodies))
}

// readList reads the parameters of a list. Its error has every bad one.
func readList(c *route.Call) (p duly.ListParams, err error) {
	var f contract.BadFields
	p.PageParams, err = c.Page()
	f.Take(err)
	p.State, err = contract.ParseState(c.Query("state"))
	f.Take(err)
	p.Bodies, err = boolParam(c, "bodies")
	f.Take(err)
	p.Key = c.Query("key")

	readRange(c, &p, &f)
	return p, f.Err()
}

// readRange reads the direction of a list and the moment at which it begins.
func readRange(c *route.Call, p *duly.ListParams, f *contract.BadFields) {
	switch order := c.Query("order"); order {
	case "", "oldest":
	case "newest":
		p.Newest = true
	default:
		f.Add("order", "is %s, must be oldest or newest", contract.Quoted(order))
	}

	if text := c.Query("from"); text != "" {
		from, err := time.Parse(time.RFC3339Nano, text)
		// The zero time would mean no bound.
		if err != nil || from.IsZero() {
			f.Add("from", "is %s, must be a time between 1970 and %s; write it like 2026-01-31T08:00:00Z",
				contract.Quoted(text), duly.MaxTime.Format(time.RFC3339Nano))
		}
		p.From = from
	}
}

// pageSize returns the maximum size of a list in bytes, and a likely size for a list without
// bodies.
func (a *API) pageSize(p duly.ListParams) int64 {
	n := p.Limit
	if n == 0 {
		n = duly.DefaultPage
	}
	if p.Bodies {
		return a.poll.Bodies(n)
	}
	return int64(n) * 512
}

func (a *API) peek(c *route.Call) error {
	return a.replyJob(c, func() (duly.JobInfo, error) { return a.engine.Peek(c.Context(), queue(c)) })
}

// delivered answers with the job of a receipt.
func (a *API) delivered(c *route.Call) error {
	receipt := duly.Receipt(c.PathValue("receipt"))
	return a.replyJob(c, func() (duly.JobInfo, error) {
		return a.engine.GetByReceipt(c.Context(), c.Namespace, receipt)
	})
}

func (a *API) job(c *route.Call) error {
	return a.replyJob(c, func() (duly.JobInfo, error) { return a.engine.Get(c.Context(), queue(c), c.PathValue("id")) })
}

// why answers with what holds a job back.
func (a *API) why(c *route.Call) error {
	x, err := a.cfg.Explainer.Explain(c.Context(), queue(c), c.PathValue("id"))
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.ExplainForm.Append(c.Room(explanationSize), x))
}

// explanationSize is a likely size of the answer of why.
const explanationSize = 1024

// find answers with the jobs of all queues that have an ID.
func (a *API) find(c *route.Call) error {
	// The sizes are unknown before the read, so the bound of all bodies is reserved.
	if err := c.ReserveMemory(a.poll.Bodies(contract.MaxFound)); err != nil {
		return err
	}
	found, err := a.cfg.Finder.Find(c.Context(), c.Namespace, c.PathValue("id"))
	if err != nil {
		return err
	}

	size := wire.SizeOfJobs(duly.ListPage{Jobs: found.Jobs}, true)
	bodies := 0
	for i := range found.Jobs {
		bodies += len(found.Jobs[i].Body) + len(found.Jobs[i].Result)
	}
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.FoundForm.Append(c.Room(size), found))
}

// replyJob answers with a job and its body.
func (a *API) replyJob(c *route.Call, find func() (duly.JobInfo, error)) error {
	// The size is unknown before the read, so the bound of a body is reserved.
	if err := c.ReserveMemory(a.poll.Bodies(1)); err != nil {
		return err
	}
	j, err := find()
	if err != nil {
		return err
	}

	size := wire.SizeOfJob(&j)
	if err := c.ReserveMemory(int64(len(j.Body) + len(j.Result) + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.JobForm.Append(c.Room(size), j))
}

func (a *API) update(c *route.Call) error {
	u, err := route.Read(c, wire.UpdateForm.ReadRequest)
	if err != nil {
		return err
	}
	if err := a.engine.Update(c.Context(), queue(c), c.PathValue("id"), u); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) remove(c *route.Call, q duly.QueueRef) error {
	return a.engine.Delete(c.Context(), q, c.PathValue("id"))
}

func (a *API) removeMany(c *route.Call) error {
	d, err := route.Read(c, wire.DeleteJobsForm.ReadRequest)
	if err != nil {
		return err
	}
	errs, err := a.engine.DeleteJobs(c.Context(), queue(c), d.IDs, d.State)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.ResultsForm.Append(c.Out(), errs))
}

func (a *API) promoteMany(c *route.Call) error {
	ids, err := route.Read(c, wire.PromoteJobsForm.ReadRequest)
	if err != nil {
		return err
	}
	errs, err := a.engine.PromoteJobs(c.Context(), queue(c), ids)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.ResultsForm.Append(c.Out(), errs))
}

func (a *API) getMany(c *route.Call) error {
	g, err := route.Read(c, wire.GetJobsForm.ReadRequest)
	if err != nil {
		return err
	}

	// The engine holds the jobs in memory, so their bound is reserved before the call.
	p := duly.ListParams{PageParams: duly.PageParams{Limit: len(g.IDs)}, Bodies: g.Bodies}
	if err := c.ReserveMemory(a.pageSize(p)); err != nil {
		return err
	}
	results, err := a.engine.GetJobs(c.Context(), queue(c), g.IDs, g.Bodies)
	if err != nil {
		return err
	}

	bodies := 0
	for i := range results {
		bodies += len(results[i].Info.Body) + len(results[i].Info.Result)
	}
	size := wire.SizeOfGotJobs(results, g.Bodies)
	if err := c.ReserveMemory(int64(bodies + size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendGotJobs(c.Room(size), results, g.Bodies))
}

func (a *API) promote(c *route.Call, q duly.QueueRef) error {
	return a.engine.Promote(c.Context(), q, c.PathValue("id"))
}
