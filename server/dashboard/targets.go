package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

var targetActions = []action{
	{of: ofTarget, name: "enable", done: "The target is enabled.", run: enableTarget(true)},
	{of: ofTarget, name: "disable", done: "The target is disabled. Its jobs wait.", run: enableTarget(false)},
	{
		of: ofTarget, name: "test",
		run: func(ctx context.Context, c *Config, t *target) error {
			tested, err := c.Targets(t.queue.Namespace).TestTarget(ctx, t.name)
			t.text = fmt.Sprintf("The test has the status %d after %s: %s.", tested.Status, view.Duration(tested.Took),
				cmp.Or(tested.Error, tested.As.String()))
			return err
		},
	},
	{
		of: ofTarget, name: "rotate", question: ask("Rotate the secret of {name}?"), done: "The secret is rotated.",
		effect: "Requests carry the signatures of both secrets for 24h. The command duly target secret {name} prints the new one.",
		run: func(ctx context.Context, c *Config, t *target) error {
			return c.Targets(t.queue.Namespace).RotateSecret(ctx, t.name, contract.PushRotation{})
		},
	},
	{
		of: ofTarget, name: "delete", api: "DELETE " + ofTarget.api, done: "The target is deleted.",
		question: ask("Delete the target {name}?"), effect: "Its jobs wait until it exists again.",
		run: func(ctx context.Context, c *Config, t *target) error {
			return c.Targets(t.queue.Namespace).DeleteTarget(ctx, t.name)
		},
	},
}

func enableTarget(enabled bool) func(context.Context, *Config, *target) error {
	return func(ctx context.Context, c *Config, t *target) error {
		return c.Targets(t.queue.Namespace).EnableTarget(ctx, t.name, enabled)
	}
}

// targets lists the targets of a namespace, the hosts that are in use, and the queues whose jobs go to them.
func (d *Dashboard) targets(c *route.Call) error {
	look := d.feed.Look(c.Context(), contract.NamespaceOr(c.Namespace))
	if look.Err != nil {
		return look.Err
	}
	targets := d.cfg.Targets(c.Namespace)
	list, next, err := targets.Targets(c.Context(), duly.PageParams{Cursor: c.Query("cursor")})
	if err != nil {
		return err
	}
	hosts, err := targets.Hosts(c.Context())
	if err != nil {
		return err
	}
	v := view.Targets{Targets: list, Hosts: hosts}
	v.Queues = slices.DeleteFunc(slices.Clone(look.Queues), func(q contract.QueueStats) bool {
		return q.Stats.Delivery != duly.DeliverPush
	})
	if next != "" {
		v.Next = withQuery(path("n", c.Namespace, "targets"), "cursor", next)
	}
	v.Links = d.formLink(c, &targetForm, "New target")
	v.Frame = d.stream(also(d.frame(c, "Push targets"), "target list", fmt.Sprintf("/v1/%s/push/targets", c.Namespace)), "")
	return d.reply(c, http.StatusOK, "targets.html", v)
}

// target shows a target with the gate of its host.
func (d *Dashboard) target(c *route.Call) error {
	t := targetOf(c, nil)
	found, err := d.cfg.Targets(c.Namespace).Target(c.Context(), t.name)
	if err != nil {
		return err
	}
	name, text := "disable", "Disable"
	if found.Settings.Disabled {
		name, text = "enable", "Enable"
	}
	v := view.Page{
		Up:     view.Link{Text: "Push targets", To: path("n", c.Namespace, "targets")},
		Links:  d.formLink(c, &targetForm, "Change", "name", t.name),
		Fields: shown(wire.TargetForm.Append(nil, found), d.cfg.Clock.Now(), "name"),
	}
	for _, b := range [][3]string{
		{name, text}, {"test", "Test"}, {"rotate", "Rotate the secret …"}, {"delete", "Delete …", "targets"},
	} {
		v.Buttons = append(v.Buttons, d.button(c, ofTarget, b[0], b[1], b[2])...)
	}
	v.Frame = also(d.frame(c, t.name), "target get "+t.name, string(t.path(ofTarget.api)))
	return d.reply(c, http.StatusOK, "page.html", v)
}

// targetForm creates or changes a target. It never shows the headers and the secret.
var targetForm = form{
	at: atNamespace + "/set/target", api: "PUT " + ofTarget.api, access: auth.Admin, fields: wire.TargetSettingsForm.Describe(),
	params: []string{"name"}, secret: []string{"headers", "secret"}, word: "Save", command: "duly target set {name} URL",
	open: openTarget, read: readTarget,
}

func openTarget(d *Dashboard, c *route.Call, t *target, v *view.Form) (url.Values, error) {
	v.Title, v.Up = "New target", view.Link{Text: "Push targets", To: t.path(atNamespace + "/targets")}
	if c.R.Method != http.MethodGet || t.name == "" {
		return url.Values{}, nil
	}
	found, err := d.cfg.Targets(c.Namespace).Target(c.Context(), t.name)
	if len(found.HeaderNames) > 0 {
		v.Notes = append(v.Notes, "Enter its headers again, because no page shows them. Headers that you leave out are removed: "+
			strings.Join(found.HeaderNames, ", ")+".")
	}
	v.Title = "Change " + t.name
	return valuesOf(wire.TargetForm.Append(nil, found)), err
}

func readTarget(d *Dashboard, t *target, request string) (func(context.Context) (string, error), error) {
	s, err := wire.TargetSettingsForm.ReadRequest(request)
	t.of = ofTarget
	return func(ctx context.Context) (string, error) {
		return "The target is saved.", d.cfg.Targets(t.queue.Namespace).SetTarget(ctx, t.name, s)
	}, err
}
