package dashboard

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/queueplan"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

const atSettings = atQueue + "/settings"

// settingsForm changes the configuration of a queue, after a page with the changes and their effects.
var settingsForm = form{
	at: atSettings, api: "PATCH " + ofQueue.api, access: auth.Admin, fields: wire.ConfigForm.Describe(),
	word: "Show the effects", command: "duly queue set {queue} --dry-run", open: openSettings, read: readSettings,
	review: reviewSettings,
}

// The settings that only groups have, and those that they lack.
var ofGroups, notOfGroups = []string{"order", "max_held", "filter", "idle", "target"},
	[]string{"shards", "delivery", "push_url", "on_done", "on_dead"}

func openSettings(d *Dashboard, c *route.Call, t *target, v *view.Form) (url.Values, error) {
	v.Title, v.Up = "Settings of "+t.queue.Name, view.Link{Text: t.queue.Name, To: t.path(atQueue)}
	if v.Without = ofGroups; t.queue.IsGroup() {
		v.Without = notOfGroups
	}
	config, err := d.cfg.Engine.Config(c.Context(), t.queue)
	return settingsOf(config), err
}

// settingsOf returns a configuration as the values of a form.
func settingsOf(config duly.QueueConfig) url.Values {
	values := url.Values{}
	for _, f := range queueplan.Fields(config) {
		values.Set(f.Name, f.Value)
	}
	return values
}

func readSettings(d *Dashboard, t *target, request string) (func(context.Context) (string, error), error) {
	patch, err := wire.ConfigForm.ReadRequest(request)
	if err == nil {
		err = d.checkDestinations("", "push_url", patch.Push.URL, patch.Push.OnDone, patch.Push.OnDead)
	}
	return func(ctx context.Context) (string, error) {
		err := d.cfg.Engine.Configure(ctx, t.queue, patch)
		if err == nil && patch.Group.Target != "" && d.cfg.Targeted != nil {
			d.cfg.Targeted() // the server starts the bridge of the group
		}
		return "The settings are saved.", err
	}, err
}

// reviewSettings returns the page with the changes and the effects of a request. It returns nil if the session has
// confirmed them for the settings that the queue has now.
func reviewSettings(d *Dashboard, c *route.Call, t *target, request string, form url.Values) (*view.Confirm, error) {
	patch, err := wire.ConfigForm.ReadRequest(request)
	if err != nil {
		return nil, err
	}
	plan, err := queueplan.Of(c.Context(), d.cfg.Engine, t.queue, patch, d.cfg.Clock.Now())
	if err == nil && len(plan.Changes) == 0 && len(plan.Effects) == 0 {
		err = contract.Errorf(duly.CodeInvalid, "the queue has these settings; change a field")
	}
	if err != nil {
		return nil, err
	}

	seen := settingsOf(plan.Before)
	v := &view.Confirm{Button: view.Button{Text: "Save", To: t.path(atSettings), Once: form.Get("once")},
		Cancel: t.path(atSettings), Notes: plan.Effects,
		Hidden: []view.Field{{Name: "seen", Value: seen.Encode()}}}
	command := "duly queue set {queue}"
	for _, change := range plan.Changes {
		t.ids = append(t.ids, change.Field) // for the audit log
		v.Sizes = append(v.Sizes, view.Field{Name: change.Field, Value: change.From + " → " + change.To})
		command += " --" + strings.ReplaceAll(strings.TrimPrefix(change.Field, "defaults."), "_", "-") + " " + shellWord(change.To)
	}
	if patch.Reopen {
		command += " --reopen"
	}
	if v.Problem = changed(form.Get("seen"), seen); v.Problem == "" && form.Get("confirmed") != "" {
		return nil, nil
	}

	if plan.Creates {
		v.Notes = append(v.Notes, "The queue does not exist, so this creates it.")
	}
	if len(v.Notes) == 0 {
		v.Notes = []string{"This has no effect on the jobs that the queue has now."}
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if !slices.Contains([]string{"once", "seen", "confirmed"}, name) {
			v.Hidden = append(v.Hidden, view.Field{Name: name, Value: form.Get(name)})
		}
	}
	v.Frame = d.frame(c, "Change the settings of "+t.queue.Name+"?")
	v.Frame.Command = t.fill(command)
	v.Frame.Request = "PATCH " + string(t.path(ofQueue.api)) + " " + request
	return v, nil
}

// changed says what another operator has changed since a form was shown, "" for nothing.
func changed(seen string, now url.Values) string {
	was, err := url.ParseQuery(seen)
	if err != nil || seen == now.Encode() {
		return ""
	}
	all := maps.Clone(was)
	maps.Copy(all, now)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was.Get(name) != now.Get(name) {
			list = append(list, fmt.Sprintf("%s %s → %s", name, was.Get(name), now.Get(name)))
		}
	}
	return "Somebody has changed the settings meanwhile: " + strings.Join(list, ", ") + "."
}

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	if strings.ContainsAny(text, " \t\n'\"\\$&;|<>()*?[]{}#~!`") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
