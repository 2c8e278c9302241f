package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/operations/spec"
	"github.com/dulymq/duly/server/route"
)

// startForm starts an operation on the jobs of a queue that have one state, or one error. As in the API, the right
// depends on the kind of the operation, so [openStart] and [readStart] check it.
var startForm = form{
	at: atQueue + "/start", api: "POST " + operationsAPI, access: auth.Produce, fields: wire.NewOperationForm.Describe(),
	word: "Start", command: "duly operation start {name}", open: openStart, read: readStart,
}

// startLink returns a link to the form of an operation, nil if the caller may not start it.
func (d *Dashboard) startLink(c *route.Call, text string, kind contract.OperationKind, params ...string) []view.Link {
	if !d.can(c, spec.Access(kind, false)) {
		return nil
	}
	return d.formLink(c, &startForm, text, append(params, "kind", string(kind))...)
}

// startLinks returns the links to the operations on all jobs of a state.
func (d *Dashboard) startLinks(c *route.Call, s duly.State) (list []view.Link) {
	switch s {
	case duly.StateDead:
		list = d.startLink(c, "Requeue all …", contract.OperationRequeue)
	case duly.StateDelayed:
		list = d.startLink(c, "Run all now …", contract.OperationPromote)
	}
	return append(list, d.startLink(c, "Purge …", contract.OperationPurge, "state", s.String())...)
}

// openStart states how many jobs the operation has now. If they are more than an action on a page may have, the form
// takes the typed name of the queue.
func openStart(d *Dashboard, c *route.Call, t *target, v *view.Form) (url.Values, error) {
	n := contract.NewOperation{
		Kind: contract.OperationKind(t.form.Get("kind")), Queue: t.queue.Name, Group: t.form.Get("group"),
	}
	if text := t.form.Get("state"); text != "" && n.State.UnmarshalText([]byte(text)) != nil {
		return nil, contract.Invalid("state", "is %q, must be a state such as dead", text)
	}
	if err := cmp.Or(spec.Validate(t.queue.Namespace, &n), c.Require(spec.Access(n.Kind, false))); err != nil {
		return nil, err
	}
	count, uncounted, err := d.count(c, t.queue, &n)
	if err != nil {
		return nil, err
	}

	jobs, back := fmt.Sprint(count), t.path(atQueue+"/"+n.State.String())
	if uncounted > 0 {
		jobs += " or more"
	}
	v.Title = fmt.Sprintf("%s %s %s jobs of %s?", strings.ToUpper(string(n.Kind[:1]))+string(n.Kind[1:]), jobs, n.State, n.Queue)
	v.Notes = []string{"The server does this in the background. A page shows the progress, and can pause and stop it."}
	t.name = string(n.Kind) + " " + n.Queue
	if n.State == duly.StateDead {
		v.Notes = append(v.Notes, "Jobs that die after the start stay dead.")
	}
	if n.Group != "" {
		v.Title = strings.TrimSuffix(v.Title, "?") + " with this error?"
		t.name, back = t.name+" --group "+n.Group, withQuery(back, "fp", n.Group)
	}
	v.Up = view.Link{Text: n.Queue + ": " + n.State.String(), To: back}

	values := url.Values{"kind": {string(n.Kind)}, "group": {n.Group}}
	v.Hide, v.Without = []string{"kind", "group", "state"}, []string{"ids"}
	v.Hints, v.Choices = map[string]string{"canary.jobs": "no canary"}, map[string][]string{"rate": {"10", "100"}}
	switch n.Kind {
	case contract.OperationRequeue:
		values.Set("rate", "100")
	case contract.OperationPurge:
		values.Set("state", n.State.String())
		t.name += " --state " + n.State.String()
		fallthrough
	default:
		v.Without = append(v.Without, "canary.jobs", "canary.then", "tries", "ttl")
	}
	if count+uncounted > maxSelected || n.Group == "" {
		v.Notes = append(v.Notes, "To confirm, type the name of the queue: "+n.Queue)
	} else {
		v.Hide = append(v.Hide, "queue")
		values.Set("queue", n.Queue)
	}
	return values, nil
}

// count returns the number of jobs that an operation would have now. uncounted is the number of further jobs that may
// belong to its group.
func (d *Dashboard) count(c *route.Call, q duly.QueueRef, n *contract.NewOperation) (count, uncounted int64, err error) {
	stats, err := d.cfg.Engine.Stats(c.Context(), q)
	if err != nil {
		return 0, 0, err
	}
	if n.Group == "" {
		return *stats.Sizes.Of(n.State), 0, nil
	}

	count, uncounted, err = d.failures.Count(c.Context(), n.Group, q, &stats)
	if err == nil && count+uncounted == 0 {
		err = contract.Errorf(duly.CodeNotFound, "no dead job of the queue %q has this error now", q.Name)
	}
	return count, uncounted, err
}

// readStart returns the start of an operation. The page after it is that of the operation.
func readStart(d *Dashboard, t *target, request string) (func(context.Context) (string, error), error) {
	n, err := wire.NewOperationForm.ReadRequest(request)
	if err == nil {
		err = t.call.Require(spec.Access(n.Kind, len(n.IDs) > 0))
	}
	if err == nil && n.Queue != t.queue.Name {
		err = contract.Invalid("queue", "is %q, must be %q; type the name of the queue", n.Queue, t.queue.Name)
	}
	if err != nil {
		return nil, err
	}

	s, err := d.session(t.call)
	return func(context.Context) (string, error) {
		o, err := d.cfg.Operations.Start(t.queue.Namespace, n, operations.Actor{
			Caller: t.call.Caller(), Session: s.Mark(), Remote: t.call.R.RemoteAddr, Via: "dashboard", Request: t.call.ID(),
		})
		t.of, t.name, t.back = ofOperation, o.ID, ""
		return "The operation is started.", err
	}, err
}
