package dashboard

import (
	"fmt"
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/route"
)

// dead serves the page with the groups of a namespace's dead jobs, or of one queue.
func (d *Dashboard) dead(c *route.Call) error {
	namespace, only := contract.NamespaceOr(c.Namespace), c.Query("queue")
	look := d.feed.Look(c.Context(), namespace)
	if look.Err != nil {
		return look.Err
	}

	here := path("n", namespace, "dead")
	if only != "" {
		here = queuePath(namespace, only, duly.StateDead.String())
	}
	sizes, err := failures.Sizes(c.Context(), look.Queues, duly.QueueRef{Namespace: namespace, Name: only}, look.Mono,
		d.cfg.Engine.Stats)
	if err != nil {
		return err
	}

	v, err := d.groups(c, here, only, sizes)
	if err != nil {
		return err
	}
	if look.Next != "" && only == "" {
		v.Table.Notes = append(v.Table.Notes, fmt.Sprintf("Only the first %d queues are counted.", len(look.Queues)))
	}
	v.Frame = d.stream(also(d.frame(c, "Dead letters"), "dead list QUEUE --groups",
		fmt.Sprintf("/v1/%s/queues/QUEUE/jobs?state=dead", namespace)), only)
	return d.reply(c, http.StatusOK, "dead.html", v)
}

// groups returns the groups of some queues, or the group of the filter with the actions on it in one queue.
func (d *Dashboard) groups(c *route.Call, here render.Path, only string, sizes []failures.Size) (*view.Groups, error) {
	namespace := contract.NamespaceOr(c.Namespace)
	group, err := groupOf(c)
	if err != nil {
		return nil, err
	}
	found, err := d.failures.Look(c.Context(), namespace, sizes)
	if err != nil {
		return nil, err
	}

	v := &view.Groups{
		Table: found.Table(group), Namespace: namespace, Here: here,
		From: withQuery(path("n", namespace, "dead"), "queue", only, "fp", group), Filter: group,
	}
	v.Now = d.cfg.Clock.Now()
	if v.Table.Group == nil || c.PathValue("queue") == "" {
		return v, nil
	}

	v.Links = append(d.startLink(c, "Requeue all …", contract.OperationRequeue, "group", group),
		d.startLink(c, "Delete all …", contract.OperationDelete, "group", group)...)
	return v, nil
}

// groupOf returns the fingerprint in the query of a page, "" without one.
func groupOf(c *route.Call) (string, error) {
	fp := c.Query("fp")
	if fp != "" && !failures.IsFingerprint(fp) {
		return "", contract.Invalid("fp", "is %q, must have 12 hexadecimal digits; take it from the list of groups", fp)
	}
	return fp, nil
}

// subject returns the names of an action's jobs, or the name of anything else.
func (t *target) subject() []string {
	if t.name != "" {
		return []string{t.name}
	}
	return t.ids
}
