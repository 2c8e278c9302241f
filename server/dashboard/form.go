package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// form is a page with the fields of a request of the API, by the description of that request.
type form struct {
	at, api string
	access  auth.Access
	limited contract.Right // the right whose rate limits the route, 0 for none
	fields  *wire.Object
	// params are parameters of the route's path that are fields of the form. secret are fields that no page shows.
	params, secret []string
	word, command  string
	// open returns the values of the page, and completes the view: its title at least.
	open func(d *Dashboard, c *route.Call, t *target, v *view.Form) (url.Values, error)
	// read checks a request, and returns what it does. done says what has happened.
	read func(d *Dashboard, t *target, request string) (run func(context.Context) (done string, err error), err error)
	// review, if set, returns the page that asks before the request runs, nil after its confirmation. Its form has only
	// the fields that differ from those that the session has seen.
	review func(d *Dashboard, c *route.Call, t *target, request string, form url.Values) (*view.Confirm, error)
}

// formRoutes returns the routes of a form.
func (d *Dashboard) formRoutes(forms ...*form) (list []route.Route) {
	for _, f := range forms {
		get := d.route(http.MethodGet, f.at, f.access, func(c *route.Call) error { return d.openForm(c, f, nil, nil) })
		post := d.route(http.MethodPost, f.at, f.access, func(c *route.Call) error { return d.submit(c, f) })
		// A byte of a body may need three in a form.
		post.LimitedBy, post.MaxBody = f.limited, maxForm+3*duly.DefaultMaxBody
		list = append(list, get, post)
	}
	return list
}

// openForm shows a form, or again with the values and the error of its last try.
func (d *Dashboard) openForm(c *route.Call, f *form, tried url.Values, failed error) error {
	values, status := tried, http.StatusOK
	if tried == nil {
		values = c.R.URL.Query()
	}
	t, v := targetOf(c, values), &view.Form{Once: rand.Text(), Off: d.cfg.ReadOnly, Word: f.word}
	filled, err := f.open(d, c, t, v)
	if err != nil {
		return err
	}
	if failed != nil {
		_, status = wire.AppendProblem(nil, failed, 0)
	}
	if tried == nil {
		for _, name := range f.params {
			filled.Set(name, values.Get(name))
		}
		values = filled
		if f.review != nil {
			v.Seen = filled.Encode()
		}
	} else {
		v.Seen = tried.Get("seen")
		for name, was := range seen(tried) {
			if !tried.Has(name) {
				tried[name] = was
			}
		}
	}
	f.show(v, values, failed)
	v.To = t.path(f.at)
	method, pattern, _ := strings.Cut(f.api, " ")
	v.Frame = d.frame(c, v.Title)
	v.Frame.Command, v.Frame.Request = t.fill(f.command), method+" "+string(t.path(pattern))
	return d.reply(c, status, "form.html", v)
}

// show adds the fields with their values, and the error of the last try.
func (f *form) show(v *view.Form, values url.Values, failed error) {
	problems := map[string]string{}
	var e *duly.Error
	if errors.As(failed, &e) {
		for _, p := range e.Fields {
			problems[p.Field] = p.Field + " " + p.Problem
		}
	}
	for _, name := range f.params {
		v.Inputs = append(v.Inputs, view.Input{Name: name, Value: values.Get(name), Problem: problems[name], Required: true})
	}
	for _, in := range inputs(f.fields, "") {
		switch {
		case slices.Contains(v.Hide, in.Name):
			v.Hidden = append(v.Hidden, view.Field{Name: in.Name, Value: values.Get(in.Name)})
		case !slices.Contains(v.Without, in.Name):
			in.Choices = v.Choices[in.Name]
			v.Inputs = append(v.Inputs, in)
		}
	}
	for i := range v.Inputs {
		in := &v.Inputs[i]
		if in.Problem = problems[in.Name]; !slices.Contains(f.secret, in.Name) {
			in.Value = values.Get(in.Name)
		}
		for o := range in.Options {
			in.Options[o].Current = in.Options[o].Text == in.Value
		}
		if hint := v.Hints[in.Name]; hint != "" {
			in.Hint = hint
		}
		delete(problems, in.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		v.Problem += problems[name] + ". "
	}
	if failed != nil && (e == nil || len(e.Fields) == 0) {
		v.Problem = failed.Error()
	}
}

// formLink returns a link to a form, nil if the caller may not send it.
func (d *Dashboard) formLink(c *route.Call, f *form, text string, params ...string) []view.Link {
	if !d.can(c, f.access) {
		return nil
	}
	return []view.Link{{Text: text, To: withQuery(targetOf(c, nil).path(f.at), params...)}}
}

// inputs returns the fields of a request. A field of an object inside has the name of that object, and a dot.
func inputs(of *wire.Object, prefix string) (list []view.Input) {
	for _, f := range of.Fields {
		in := view.Input{Name: prefix + f.Name, Required: f.Required, Map: f.Kind == wire.TextMap}
		enum := reflect.StructTag(f.Keywords).Get("enum")
		switch {
		case f.Kind == wire.Nested:
			list = append(list, inputs(f.Object, in.Name+".")...)
			continue
		case f.Kind == wire.Base64 || f.Name == "made":
			continue // another form of a field, and what only clients set
		case f.Kind == wire.Boolean:
			enum = "true,false"
		}
		for _, name := range strings.FieldsFunc(enum, func(r rune) bool { return r == ',' }) {
			in.Options = append(in.Options, view.Order{Text: name})
		}
		in.Help, in.Hint, _ = strings.Cut(f.Doc, " Default: ")
		in.Hint, in.Area = strings.TrimSuffix(in.Hint, "."), in.Map || f.Name == "body" || f.Name == "ca"
		list = append(list, in)
	}
	return list
}

// submit does what a form says. A refusal shows the form again. A form that arrives twice is one action.
func (d *Dashboard) submit(c *route.Call, f *form) error {
	values, s, err := d.submitted(c)
	if err != nil {
		return err
	}
	t, given := targetOf(c, values), maps.Clone(values)
	maps.DeleteFunc(given, func(name string, now []string) bool { return slices.Equal(now, seen(values)[name]) })
	var bad contract.BadFields
	request, _ := json.Marshal(requestOf(f.fields, "", given, &bad)) // texts, numbers and bools always have a JSON form
	var run func(context.Context) (string, error)
	if err = bad.Err(); err == nil {
		run, err = f.read(d, t, string(request))
	}
	// After the page's Back button, the same form may be for another name. The ID of the session, which is in no log,
	// keeps a secret of the request from being guessed by its sum.
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %s", s.ID, t.queue.String(), t.name, request))
	mark := fmt.Sprintf("%s %x", values.Get("once"), sum[:8])
	key := s.ID + " " + mark

	if err == nil && f.review != nil {
		// Of two sessions that save at once, the second one sees what the first one has saved.
		end, gone := d.saving.Take(c.Context(), t.queue.Normal())
		if gone != nil {
			return gone
		}
		defer end()

		// The second of two clicks would find nothing to change.
		var v *view.Confirm
		if !d.results.has(key) {
			v, err = f.review(d, c, t, string(request), given)
		}
		if v != nil {
			return d.reply(c, http.StatusOK, "confirm.html", v)
		}
	}
	if err != nil {
		return d.openForm(c, f, values, err)
	}

	page, err := d.results.once(values.Get("once"), key, func() (text string, _ render.Path, err error) {
		err = d.audited(d.actionOf(c, f.api, t, &s), t, func() (err error) {
			text, err = run(c.Context())
			return err
		})
		return text, t.page(), err
	})
	switch code := duly.CodeOf(err); {
	case err == nil:
		if d.results.text(key) == "" {
			mark = ""
		}
		return seeOther(c, withQuery(page, "result", mark))
	case slices.Contains([]duly.Code{duly.CodeInvalid, duly.CodeConflict, duly.CodeFull, duly.CodeNotFound}, code):
		return d.openForm(c, f, values, err)
	}
	return err
}

// seen returns the values that a form had when it was shown, as far as it remembers them.
func seen(form url.Values) url.Values {
	was, _ := url.ParseQuery(form.Get("seen"))
	return was
}

// requestOf returns the request to the API with the fields of a form. A field that is empty is left out.
func requestOf(of *wire.Object, prefix string, form url.Values, bad *contract.BadFields) map[string]any {
	object := map[string]any{}
	for _, f := range of.Fields {
		value := strings.ReplaceAll(form.Get(prefix+f.Name), "\r\n", "\n")
		if f.Name != "body" {
			value = strings.TrimSpace(value)
		}
		switch {
		case f.Kind == wire.Nested:
			if inner := requestOf(f.Object, prefix+f.Name+".", form, bad); len(inner) > 0 {
				object[f.Name] = inner
			}
		case value == "":
		case f.Kind == wire.NestedOrNone && value != "none": // an object with one field
			inner := f.Object.Fields[0]
			object[f.Name] = map[string]any{inner.Name: scalar(inner.Kind, value, prefix+f.Name, bad)}
		case f.Kind == wire.TextMap:
			texts := map[string]string{}
			for i, line := range strings.Split(value, "\n") {
				if name, text, found := strings.Cut(line, ":"); found {
					texts[strings.TrimSpace(name)] = strings.TrimSpace(text)
				} else if strings.TrimSpace(line) != "" { // no page shows the line, which may have a secret
					bad.Add(prefix+f.Name, "need a colon in line %d; write name: value", i+1)
				}
			}
			object[f.Name] = texts
		case f.List:
			var list []any
			for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ' ' }) {
				list = append(list, scalar(f.Kind, part, prefix+f.Name, bad))
			}
			object[f.Name] = list
		default:
			object[f.Name] = scalar(f.Kind, value, prefix+f.Name, bad)
		}
	}
	return object
}

// scalar returns a value of a form as JSON has it.
func scalar(kind wire.Kind, text, name string, bad *contract.BadFields) any {
	_, err := strconv.ParseFloat(text, 64)
	switch kind {
	case wire.Boolean:
		if text != "true" && text != "false" {
			bad.Add(name, "must be true or false")
		}
		return text == "true"
	case wire.CountOrNone, wire.RateOrNone:
		if text == "none" {
			return text
		}
		fallthrough
	case wire.Integer, wire.Number:
		if err != nil || !json.Valid([]byte(text)) {
			bad.Add(name, "must be a number")
			return nil
		}
		return json.Number(text)
	}
	return text
}

// fieldsOf returns the values of an answer of the API in its order. A value of an object inside has the name of that
// object, and a dot.
func fieldsOf(answer []byte) (list []view.Field) {
	in := json.NewDecoder(bytes.NewReader(answer))
	in.UseNumber()
	return addFields(nil, in, "")
}

func addFields(list []view.Field, in *json.Decoder, name string) []view.Field {
	token, _ := in.Token() // an answer is valid JSON
	switch token {
	case json.Delim('{'):
		for in.More() {
			key, _ := in.Token()
			list = addFields(list, in, strings.TrimPrefix(name+"."+key.(string), "."))
		}
	case json.Delim('['):
		var texts []string
		for in.More() {
			inner := []string{}
			for _, f := range addFields(nil, in, "") {
				inner = append(inner, strings.TrimPrefix(f.Name+" "+f.Value, " "))
			}
			texts = append(texts, strings.Join(inner, " "))
		}
		list = append(list, view.Field{Name: name, Value: strings.Join(texts, ", ")})
	default:
		return append(list, view.Field{Name: name, Value: fmt.Sprint(token)})
	}
	_, _ = in.Token() // the end
	return list
}

// below returns the fields of an object inside an answer.
func below(prefix string, answer []byte) (list []view.Field) {
	for _, f := range fieldsOf(answer) {
		if name, ok := strings.CutPrefix(f.Name, prefix); ok {
			list = append(list, view.Field{Name: name, Value: f.Value})
		}
	}
	return list
}

// valuesOf returns an answer of the API as the values of a form. A map has a line for each name.
func valuesOf(answer []byte) url.Values {
	values := url.Values{}
	for _, f := range fieldsOf(answer) {
		if before, name, ok := strings.Cut(f.Name, "headers."); ok {
			values.Set(before+"headers", values.Get(before+"headers")+name+": "+f.Value+"\n")
			continue
		}
		values.Set(f.Name, f.Value)
	}
	return values
}

// shown returns the fields of an answer without some, or those of an object inside. Times have their distance from now.
func shown(answer []byte, now time.Time, without ...string) (list []view.Field) {
	for _, f := range fieldsOf(answer) {
		object, _, _ := strings.Cut(f.Name, ".")
		if slices.Contains(without, f.Name) || slices.Contains(without, object) {
			continue
		}
		if t, err := time.Parse(time.RFC3339Nano, f.Value); err == nil {
			f.Value = since(t, now)
		}
		list = append(list, f)
	}
	return list
}
