package describe

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Part is a group of routes under one heading.
type Part struct {
	Title, Text string
	// Admin routes are served on the admin address.
	Admin  bool
	Routes []route.Route
}

// intro is the text above everything.
const intro = `duly delivers every job at its time, at least once, and never early. A producer pushes jobs. A worker reserves, handles and acks them.

Send Authorization: Bearer TOKEN. Durations are text ("1h30m", "250ms", "7d"). Times are RFC 3339 with milliseconds. A body is in the field body if it is UTF-8 without NUL, else in body_base64. A fault of the envelope (JSON, an unknown field, a size, a count) refuses the request. The items of a batch are checked one by one and have their own errors. Errors are application/problem+json with a stable code. The server never redirects.`

// examples explains the variables of the examples.
const examples = "The examples use three variables. `$API` is the address of the server's API, " +
	"such as `http://127.0.0.1:7777`: it has no token and no namespace, unlike `$DULY_URL`, the engine URL of the command line. " +
	"`$DULY_ADMIN_URL` is its admin address and `$DULY_TOKEN` a token, as for the command line. " +
	"The examples run as they are, from the first to the last. Replace the receipts by those of your own reserve, " +
	"and `$ID` by the ID of a token that you created."

// setVariables sets the variables for a local server in ./duly-data.
const setVariables = "export API=$(cat duly-data/url) DULY_ADMIN_URL=$(cat duly-data/admin-url) DULY_TOKEN=$(cat duly-data/token)"

// everywhere are the codes that every route with a right may answer.
var everywhere = []duly.Code{duly.CodeInvalid, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeLimited, duly.CodeUnavailable, duly.CodeClosed, duly.CodeCorrupt, duly.CodeInternal}

// OpenAPI is the document. problem is a value of the type that errors have.
func OpenAPI(version string, problem any, parts []Part) *huma.OpenAPI {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "duly", Version: version, Description: intro, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{{URL: "/", Description: "This server"}},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token":   {Type: "http", Scheme: "bearer", Description: "A token of duly; it belongs to one namespace, or to all."},
			"account": {Type: "http", Scheme: "basic", Description: "An account of the admin address, where some are set."},
		}},
	}
	for _, p := range parts {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: p.Title, Description: p.Text})
		for i := range p.Routes {
			doc.AddOperation(operation(registry, problem, p, &p.Routes[i]))
		}
	}
	forbidNull(registry)

	return doc
}

// forbidNull removes null from the types of arrays: no form of the wire has
// null for an array, and huma allows it by default.
func forbidNull(registry huma.Registry) {
	for _, schema := range registry.Map() {
		for _, property := range schema.Properties {
			for property.Type == huma.TypeArray {
				property.Nullable = false
				property = property.Items
			}
		}
	}
}

// schemaName is a form's name: pushForm is Push.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	name := strings.TrimSuffix(t.Name(), "Form")
	if name == "" {
		name = hint
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

func operation(registry huma.Registry, problem any, p Part, r *route.Route) *huma.Operation {
	op := &huma.Operation{
		Method: r.Method, Path: r.Path, OperationID: r.Doc.ID, Tags: []string{p.Title},
		Summary: r.Doc.Summary, Description: strings.TrimSpace(r.Doc.Text + "\n\nRight: " + r.Need.String() + "."),
		Responses: map[string]*huma.Response{}, Extensions: map[string]any{"x-right": r.Need.String()},
	}
	op.Security = []map[string][]string{} // an empty list marks an open route
	if r.Need != auth.Open {
		op.Security = []map[string][]string{{"token": {}}}
	}
	if r.Need == auth.Operator {
		op.Security = append(op.Security, map[string][]string{"account": {}})
	}
	if p.Admin {
		op.Servers = []*huma.Server{{URL: "http://127.0.0.1:7778", Description: "The admin address of a local server"}}
	}
	for _, m := range placeholder.FindAllStringSubmatch(r.Path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, name := range r.Query {
		op.Parameters = append(op.Parameters, queryParam(name))
	}
	if r.Doc.Request != nil {
		media := mediaType(registry, r.Doc.Request, r.Doc.Example)
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": media}}
	}
	op.Responses[strconv.Itoa(status(r))] = success(registry, r)
	for status, codes := range failures(r) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status) + ": " + strings.Join(codes, ", "),
			Content:     map[string]*huma.MediaType{"application/problem+json": mediaType(registry, problem, exampleProblem(status, codes[0]))},
		}
	}
	return op
}

func status(r *route.Route) int {
	if r.Doc.Status != 0 {
		return r.Doc.Status
	}
	return http.StatusOK
}

func success(registry huma.Registry, r *route.Route) *huma.Response {
	response := &huma.Response{Description: "Done"}
	switch {
	case r.Doc.Answer != nil:
		response.Content = map[string]*huma.MediaType{contentType(r): mediaType(registry, r.Doc.Answer, r.Doc.ExampleAnswer)}
	case r.Doc.ContentType != "":
		response.Content = map[string]*huma.MediaType{contentType(r): {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	}
	return response
}

func contentType(r *route.Route) string {
	if r.Doc.ContentType != "" {
		return r.Doc.ContentType
	}
	return "application/json"
}

// Codes lists what a request as a whole may be answered.
func Codes(r *route.Route) []duly.Code {
	if r.Need == auth.Open {
		return r.Doc.Errors
	}
	codes := slices.Concat(everywhere, r.Doc.Errors)
	if r.MaxBody > 0 && !slices.Contains(codes, duly.CodeTooLarge) {
		codes = append(codes, duly.CodeTooLarge)
	}
	return codes
}

// failures groups the codes by status.
func failures(r *route.Route) map[int][]string {
	byStatus := map[int][]string{}
	for _, code := range Codes(r) {
		byStatus[code.HTTPStatus()] = append(byStatus[code.HTTPStatus()], string(code))
	}
	return byStatus
}

func exampleProblem(status int, code string) string {
	b, _ := json.Marshal(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "detail": "what is wrong, and what to do"})
	return string(b)
}

func mediaType(registry huma.Registry, form any, example string) *huma.MediaType {
	t := reflect.TypeOf(form)
	media := &huma.MediaType{Schema: registry.Schema(t, true, t.Name())}
	if example != "" {
		var v any
		if err := json.Unmarshal([]byte(example), &v); err != nil {
			panic("server: an example is not JSON: " + example)
		}
		media.Example = v
	}
	return media
}

// queries are the parameters that routes have in their queries.
var queries = map[string]struct{ kind, text string }{
	"cursor":    {huma.TypeString, "The next of the page before. Default: the first page."},
	"limit":     {huma.TypeInteger, "The length of the page. Bound: 1 to 1000. Default: 100."},
	"state":     {huma.TypeString, "The state to list. Bound: delayed, ready, blocked, leased, dead or done."},
	"from":      {huma.TypeString, "Where to begin: start, end, a time, a position, or the next of the page before. Default: start."},
	"wait":      {huma.TypeString, "How long to wait for a first message. Bound: 10m. Default: 0s."},
	"key":       {huma.TypeString, "The key of the message; it decides the shard. Default: none."},
	"bodies":    {huma.TypeBoolean, "true adds the bodies and results. Default: false."},
	"stats":     {huma.TypeBoolean, "true adds each queue's sizes and counters. Default: false."},
	"namespace": {huma.TypeString, "Only this namespace. Default: all."},
	"pool":      {huma.TypeString, "The name of a pool, if the server has several. Default: the default pool."},
	"seconds":   {huma.TypeInteger, "How long profile and trace run. Bound: 1 to 300. Default: 30."},
	"debug":     {huma.TypeInteger, "1 or 2 answer text, 2 with more detail. Bound: 0 to 2. Default: 0."},
}

func queryParam(name string) *huma.Param {
	schema := &huma.Schema{Type: queries[name].kind}
	if name == "state" {
		schema.Enum = []any{"delayed", "ready", "blocked", "leased", "dead", "done"}
	}
	return &huma.Param{Name: name, In: "query", Required: name == "state", Description: queries[name].text, Schema: schema}
}
