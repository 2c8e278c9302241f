package dashboard

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// pushForm is the form of a new job.
var pushForm = form{
	at: atQueue + "/push", api: "POST " + ofQueue.api + "/jobs", access: auth.Produce, limited: contract.RightProduce,
	fields: wire.PushOneForm.Describe(), word: "Push", command: "duly push {queue} BODY", open: openPush, read: readPush,
}

// openPush fills in a copy of a job: due at once, and with an ID of its own.
func openPush(d *Dashboard, c *route.Call, t *target, v *view.Form) (url.Values, error) {
	q := t.queue
	config, err := d.cfg.Engine.Config(c.Context(), q)
	if err != nil {
		return nil, err
	}
	v.Title, v.Up = "Push into "+q.Name, view.Link{Text: q.Name, To: t.path(atQueue)}
	v.Hints = map[string]string{}
	for _, f := range below("config.defaults.", wire.QueueForm.Append(nil, wire.Queue{Config: config})) {
		v.Hints[f.Name] = f.Value + ", as the queue says"
	}

	id := c.Query("copy")
	if id == "" || c.R.Method != http.MethodGet {
		return url.Values{}, nil
	}
	if err := c.Require(auth.Consume); err != nil {
		return nil, err
	}
	j, err := d.cfg.Engine.Get(c.Context(), q, id)
	if err == nil {
		err = d.checkShown(j.Body)
	}
	if err != nil {
		return nil, err
	}
	return valuesOf(wire.PushOneForm.Append(nil, duly.Job{
		Body: j.Body, Headers: j.Headers, Priority: j.Priority, OrderKey: j.OrderKey, Tries: j.Tries, Backoff: j.Backoff,
		Lease: j.Lease, Retain: j.Retain, Callback: j.Callback, OnDone: j.OnDone, OnDead: j.OnDead,
	})), nil
}

// checkShown returns an error for a body that no form may show.
func (d *Dashboard) checkShown(body []byte) error {
	switch {
	case d.cfg.HideBodies:
		return contract.Errorf(duly.CodeForbidden, "this dashboard shows no bodies, so no form may have one")
	case !utf8.Valid(body), bytes.ContainsAny(body, "\r\x00"): // browsers send each line with the same end
		return contract.Invalid("body", "is no UTF-8, or has a CR or NUL, so a form would change it; use the command line")
	}
	return nil
}

// readPush returns the push of a job. The page after it shows the job, or the one that holds its merge key.
func readPush(d *Dashboard, t *target, request string) (func(context.Context) (string, error), error) {
	job, err := wire.ReadPushOne(request, t.queue)
	if err == nil {
		err = d.checkDestinations("", "callback", job.Callback, job.OnDone, job.OnDead)
	}
	if t.back = "job"; err == nil && job.ID != "" {
		t.ids = []string{job.ID}
	}
	return func(ctx context.Context) (string, error) {
		results, err := d.cfg.Engine.Push(ctx, []duly.Job{job})
		if err != nil {
			return "", err
		}
		t.ids = []string{results[0].ID}
		return "", results[0].Err
	}, err
}

// checkDestinations returns an error for the field of a destination that no job may go to: first, on_done or on_dead
// after a prefix.
func (d *Dashboard) checkDestinations(prefix, first string, destinations ...string) error {
	for i, field := range []string{first, "on_done", "on_dead"} {
		if d.cfg.CheckDestination == nil || destinations[i] == "" {
			continue
		}
		if err := d.cfg.CheckDestination(prefix+field, destinations[i]); err != nil {
			return err
		}
	}
	return nil
}
