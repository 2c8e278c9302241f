package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

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
	group, err := failures.ParseSelection(c.Query)
	if err != nil {
		return nil, err
	}
	found, err := d.failures.Look(c.Context(), namespace, sizes)
	if err != nil {
		return nil, err
	}

	v := &view.Groups{
		Table: found.Table(group.Fingerprint), Namespace: namespace, Here: here,
		From: withQuery(path("n", namespace, "dead"), "queue", only, "fp", group.Fingerprint), Filter: group.Fingerprint,
	}
	v.Now = d.cfg.Clock.Now()
	if v.Table.Group == nil || c.PathValue("queue") == "" {
		return v, nil
	}

	// A group that was too large for one action continues with the jobs of the first click.
	texts := [3]string{1: "Requeue all …", 2: "Delete all …"}
	if group.Before > 0 {
		texts = [3]string{1: "Requeue more …", 2: "Delete more …"}
	}
	v.Buttons = d.jobButtons(c, duly.StateDead, texts, "dead", "dead")
	for i := range v.Buttons {
		v.Buttons[i].Group = group
	}
	return v, nil
}

// choose reads the jobs of a form: their IDs, or a group as it was at the click. The following forms have the time of
// the click.
func (t *target) choose(form url.Values, click time.Time) (err error) {
	if form.Get("fp") == "" {
		if t.ids = form["id"]; len(t.ids) == 0 {
			return contract.Invalid("id", "is missing; select at least one job")
		} else if len(t.ids) > maxSelected {
			return contract.Invalid("id", "is given %d times, may be given %d times", len(t.ids), maxSelected)
		}
		return nil
	}
	t.state = duly.StateDead
	if t.group, err = failures.ParseSelection(form.Get); err == nil && t.group.Before == 0 {
		t.group.Before = click.UnixMilli()
	}
	return err
}

// subject returns the names of an action's jobs: their IDs, or the group. It is the name of anything else.
func (t *target) subject() []string {
	switch {
	case t.group != nil:
		return []string{t.group.String()}
	case t.name != "":
		return []string{t.name}
	}
	return t.ids
}

// measure counts the jobs of a group. A question about an empty group is an error.
func (d *Dashboard) measure(c *route.Call, t *target, asked bool) error {
	some, err := d.failures.Measure(c.Context(), t.group, t.queue, d.cfg.Engine.Stats)
	if err == nil && !some && asked {
		err = contract.Errorf(duly.CodeNotFound, "no dead job of the queue %q has this error now", t.queue.Name)
	}
	return err
}

// run runs an action on its jobs. It takes the jobs of a group in steps.
func (d *Dashboard) run(ctx context.Context, a *action, t *target) error {
	if t.group == nil {
		return a.run(ctx, &d.cfg, t)
	}
	defer d.failures.Expire(t.queue)
	err := t.group.Each(ctx, d.cfg.Engine, d.cfg.Clock, t.queue, func(ids []string) error {
		t.ids = ids
		return a.run(ctx, &d.cfg, t)
	})
	if err == nil && t.done == 0 {
		err = t.err
	}
	return err
}
