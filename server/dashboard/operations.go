package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/operations/spec"
	"github.com/dulymq/duly/server/route"
)

const (
	operationsAPI = "/v1/{namespace}/operations"
	// operationsPerPage is the number of operations of a list.
	operationsPerPage = 100
	// operationSeconds is the time after which an open page of an operation asks again, in seconds.
	operationSeconds = "2"
)

// ofOperation is a bulk operation. The right of an action depends on what the operation does, so [changeOperation]
// checks it.
var ofOperation = &kind{atNamespace + "/ops/{name}", operationsAPI + "/{name}", "duly operation", "{name}", "ops", auth.Produce}

var operationActions = []action{
	{
		of: ofOperation, name: "pause", done: "The operation is paused.",
		run: changeOperation(func(ctx context.Context, m *operations.Manager, t *target) (contract.Operation, error) {
			return m.Pause(ctx, t.queue.Namespace, t.name, t.call.Caller())
		}),
	},
	{
		of: ofOperation, name: "continue", done: "The operation continues.",
		run: changeOperation(func(_ context.Context, m *operations.Manager, t *target) (contract.Operation, error) {
			return m.Continue(t.queue.Namespace, t.name, t.call.Caller())
		}),
	},
	{
		of: ofOperation, name: "stop", done: "The operation is stopped.",
		run: changeOperation(func(ctx context.Context, m *operations.Manager, t *target) (contract.Operation, error) {
			return m.Stop(ctx, t.queue.Namespace, t.name, t.call.Caller())
		}),
	},
}

// changeOperation returns the run of an action on an operation.
func changeOperation(
	change func(ctx context.Context, m *operations.Manager, t *target) (contract.Operation, error),
) func(context.Context, *Config, *target) error {
	return func(ctx context.Context, cfg *Config, t *target) error {
		o, err := cfg.Operations.Get(t.queue.Namespace, t.name)
		if err == nil {
			err = t.call.Require(spec.Access(o.Kind, o.IDs > 0))
		}
		if err != nil {
			return err
		}
		if o, err = change(ctx, cfg.Operations, t); err != nil {
			return err
		}

		// The audit log has only the start and the end, so the log names the caller.
		t.call.Log().Info("an operation was changed", "operation", o.ID, "state", string(o.State), "by", t.call.Caller())
		return nil
	}
}

// operations lists the operations of a namespace, newest first.
func (d *Dashboard) operations(c *route.Call) error {
	namespace, cursor := contract.NamespaceOr(c.Namespace), c.Query("cursor")
	list, next, err := d.cfg.Operations.List(namespace, duly.PageParams{Cursor: cursor, Limit: operationsPerPage})
	if err != nil {
		return err
	}

	here := path("n", namespace, "ops")
	v := view.Operations{Server: d.cfg.Server, Again: withQuery(here, "cursor", cursor)}
	if cursor != "" {
		v.First = here
	}
	if next != "" {
		v.Next = withQuery(here, "cursor", next)
	}
	open := false
	for i := range list {
		v.Rows = append(v.Rows, d.operationRow(&list[i]))
		open = open || !list[i].State.Ended()
	}
	v.Frame = polled(also(d.frame(c, "Operations"), "operation list", fmt.Sprintf("/v1/%s/operations", namespace)), open)
	return d.reply(c, http.StatusOK, "operations.html", v)
}

// operation shows one operation.
func (d *Dashboard) operation(c *route.Call) error {
	t := targetOf(c, nil)
	o, err := d.cfg.Operations.Get(contract.NamespaceOr(c.Namespace), t.name)
	if err != nil {
		return err
	}

	now, may := d.cfg.Clock.Now(), c.Require(spec.Access(o.Kind, o.IDs > 0)) == nil
	v := view.Operation{Row: d.operationRow(&o), Server: d.cfg.Server, Again: t.path(ofOperation.at), Fields: []view.Field{
		{Name: "state", Value: string(o.State)}, {Name: "reason", Value: o.Reason}, {Name: "last error", Value: o.Error},
		{Name: "canary", Value: canaryText(o.Canary)}, {Name: "rate", Value: rateText(&o)},
		{Name: "started", Value: since(o.Started, now)}, {Name: "expected end", Value: since(o.ExpectedEnd, now)},
		{Name: "ended", Value: since(o.Ended, now)}, {Name: "started by", Value: o.By},
	}}
	if may {
		v.Buttons = d.operationButtons(c, &o)
	}
	// The answers name jobs and errors, which callers need a right to see.
	if v.Shown = may || c.Require(auth.Consume) == nil; v.Shown {
		v.Answers = o.Answers
		slices.Reverse(v.Answers)
	}
	v.Frame = also(d.frame(c, v.Row.Title), "operation get "+o.ID+" --follow", string(t.path(ofOperation.api)))
	v.Frame = polled(v.Frame, !o.State.Ended())
	return d.reply(c, http.StatusOK, "operation.html", v)
}

// polled makes the numbers of a page change while operations are open.
func polled(f view.Frame, open bool) view.Frame {
	if open {
		f.Live, f.Every = true, operationSeconds
	}
	return f
}

// operationRow returns what the list and the page of an operation show alike.
func (d *Dashboard) operationRow(o *contract.Operation) view.OperationRow {
	r := view.OperationRow{
		ID: o.ID, Title: string(o.Kind) + " " + o.Queue, To: path("n", o.Namespace, "ops", o.ID),
		Queue: view.Link{Text: o.Queue, To: queuePath(o.Namespace, o.Queue)}, State: string(o.State), Filter: o.Filter,
		By: o.By, Rate: rateText(o), Started: moment(o.Started), Taken: o.Taken, Most: max(1, o.Found),
	}
	if r.End = moment(o.ExpectedEnd); o.State.Ended() {
		r.End = moment(o.Ended)
	}

	found := strconv.FormatInt(o.Found, 10)
	if !o.Counted {
		found += "+" // it counts, or has not begun; a longer text would move the other numbers
	}
	r.Counts = []view.Field{
		{Name: "found", Value: found}, {Name: "taken", Value: strconv.FormatInt(o.Taken, 10)},
		{Name: "done", Value: strconv.FormatInt(o.Done, 10)}, {Name: "skipped", Value: strconv.FormatInt(o.Skipped, 10)},
		{Name: "failed", Value: strconv.FormatInt(o.Failed, 10)},
	}
	return r
}

// rateText returns the present rate of an operation and its limit.
func rateText(o *contract.Operation) string {
	limit := "no limit"
	if o.Rate > 0 {
		limit = "limit " + strconv.FormatFloat(o.Rate, 'g', -1, 64) + "/s"
	}
	return rate(o.CurrentRate) + "/s, " + limit
}

// canaryText describes the first jobs of a requeue and how they have ended.
func canaryText(c *contract.OperationCanary) string {
	if c == nil {
		return ""
	}
	then := map[string]string{contract.CanaryContinue: "continue when 90 % have succeeded"}[c.Then]
	return fmt.Sprintf("%d jobs, then %s: %d succeeded, %d failed", c.Jobs, cmp.Or(then, c.Then), c.Succeeded, c.Failed)
}

// operationButtons returns the actions that the state of an operation permits.
func (d *Dashboard) operationButtons(c *route.Call, o *contract.Operation) (list []view.Button) {
	switch o.State {
	case contract.OperationQueued, contract.OperationRunning:
		list = d.button(c, ofOperation, "pause", "Pause", "")
	case contract.OperationWaiting, contract.OperationPaused, contract.OperationInterrupted:
		list = d.button(c, ofOperation, "continue", "Continue", "")
	default:
		return nil
	}
	return append(list, d.button(c, ofOperation, "stop", "Stop", "")...)
}
