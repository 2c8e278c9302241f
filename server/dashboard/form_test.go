package dashboard

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/dashboard/view"
)

// P7: the second of two clicks on Save gets the answer of the first one, not an error about unchanged settings.
func TestSecondClickOnSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(duly.Job{})
	b, at := r.login("admin"), "/ui/n/shop/q/mail/settings"
	form := fields(b.get(at).body)
	form.Set("max_leased", "2")
	confirm := fields(b.post(at, form).body)

	first, second := b.post(at, confirm), b.post(at, confirm)
	if first.status != http.StatusSeeOther || second.status != http.StatusSeeOther ||
		first.header.Get("Location") != second.header.Get("Location") {
		t.Errorf("the clicks have the status %d and %d, and go to %q and %q: %s", first.status, second.status,
			first.header.Get("Location"), second.header.Get("Location"), second.body)
	}
}

// A body that begins with a line feed is copied as it is: HTML drops one line feed after the tag of a text area.
func TestCopyKeepsFirstLineFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(duly.Job{ID: "a", Body: []byte("\nfirst")})
	page := r.login("admin").get("/ui/n/shop/q/mail/push?" + url.Values{"copy": {"a"}}.Encode()).body
	if !strings.Contains(page, "spellcheck=\"false\">\n\nfirst</textarea>") {
		t.Errorf("the form has %s", page)
	}
}

// The problems of several fields that a form does not show have the same order each time.
func TestFormSortsProblems(t *testing.T) {
	t.Parallel()
	failed := &duly.Error{Code: duly.CodeInvalid, Fields: []duly.FieldError{
		{Field: "b", Problem: "is bad"}, {Field: "c", Problem: "is bad"}, {Field: "a", Problem: "is bad"},
	}}
	for range 20 {
		var v view.Form
		(&form{fields: &wire.Object{}}).show(&v, nil, failed)
		if want := "a is bad. b is bad. c is bad. "; v.Problem != want {
			t.Fatalf("the form has %q, want %q", v.Problem, want)
		}
	}
}

// Each problem of a schedule is at its field.
func TestProblemsAtFieldsOfSchedule(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		c.CheckDestination = func(field, _ string) error { return contract.Invalid(field, "can't be called") }
	})
	b, at := r.login("produce"), "/ui/n/shop/set/schedule"
	for name, tt := range map[string]struct{ value, want string }{
		"template.headers":  {"kind: sales\ntenant acme", "template.headers need a colon in line 2"},
		"template.callback": {"http://10.0.0.1/", "template.callback can't be called"},
		"template.on_dead":  {"http://10.0.0.1/", "template.on_dead can't be called"},
	} {
		form := url.Values{"once": {name}, "queue": {"mail"}, "name": {"nightly"}, "spec": {"@daily"}, name: {tt.value}}
		a := b.post(at, form)
		_, problem, _ := strings.Cut(html.UnescapeString(a.body), `name="`+name+`"`)
		if problem, _, _ = strings.Cut(problem, "</div>"); a.status != http.StatusBadRequest || !strings.Contains(problem, tt.want) {
			t.Errorf("the field %s has the status %d, and %q", name, a.status, problem)
		}
	}
}

// P7: a form that a browser shows again after its Back button is another action if only the name in it has changed.
func TestFormWithAnotherName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, at := r.login("produce"), "/ui/n/shop/set/schedule"
	for _, name := range []string{"one", "two"} {
		form := url.Values{"once": {"the same"}, "queue": {"mail"}, "name": {name}, "spec": {"@daily"}}
		if a := b.post(at, form); !strings.HasPrefix(a.header.Get("Location"), "/ui/n/shop/schedules/mail/"+name+"?") {
			t.Errorf("the form of %s goes to %q", name, a.header.Get("Location"))
		}
	}
}

// A flag of a form is true or false. Another text is refused, because it would be false otherwise.
func TestFormRefusesOtherFlags(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"true", "false", "yes", "1", "TRUE"} {
		var bad contract.BadFields
		value := scalar(wire.Boolean, text, "enabled", &bad)
		if known := text == "true" || text == "false"; known != (bad.Err() == nil) || known && value != (text == "true") {
			t.Errorf("the flag %q is %v, with the error %v", text, value, bad.Err())
		}
	}
}

// A body with CR or NUL gets no form, because a browser would send another body.
func TestFormsRefuseOtherLineEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("admin")
	for body, want := range map[string]int{"a\nb": 200, "a\r\nb": 400, "a\x00b": 400, "\xff": 400} {
		id := r.push(duly.Job{Body: []byte(body)})
		_, err := r.engine.(duly.Scheduler).PutSchedule(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"},
			duly.Schedule{Name: "nightly", Spec: "@daily", Template: duly.Job{Body: []byte(body)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"/ui/n/shop/q/mail/push?copy=" + id, "/ui/n/shop/set/schedule?queue=mail&name=nightly"} {
			if a := b.get(at); a.status != want {
				t.Errorf("with the body %q, %s has the status %d, want %d", body, at, a.status, want)
			}
		}
	}
}
