package describe

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// Part is a group of routes under one heading.
type Part struct {
	Title, Text string
	// Admin is set if the routes are on the admin address.
	Admin  bool
	Routes []route.Route
}

// intro is the text at the beginning of the documents.
const intro = `duly delivers every job at its time, at least once, and never early. ` +
	`A producer pushes jobs. A worker reserves, handles and acks them.

Send Authorization: Bearer TOKEN. Durations are text ("1h30m", "250ms", "7d"). Times are RFC 3339 with milliseconds. ` +
	`A body is in the field body if it is UTF-8 without NUL, else in body_base64. ` +
	`A fault of the envelope (JSON, an unknown field, a size, a count) refuses the request. ` +
	`The items of a batch are checked one by one and have their own errors. ` +
	`Errors are application/problem+json with a stable code. The server never redirects.`

// examples explains the shell variables of the examples.
const examples = "The examples use three variables. `$API` is the address of the server's API, " +
	"such as `http://127.0.0.1:7777`: it has no token and no namespace, " +
	"unlike `$DULY_URL`, the engine URL of the command line. " +
	"`$DULY_ADMIN_URL` is its admin address and `$DULY_TOKEN` a token, as for the command line. " +
	"The examples run as they are, from the first to the last. Replace the receipts by those of your own reserve, " +
	"and `$ID` by the ID of a token that you created."

// setVariables sets the variables for a local server in ./duly-data.
const setVariables = "export API=$(cat duly-data/url) DULY_ADMIN_URL=$(cat duly-data/admin-url) " +
	"DULY_TOKEN=$(cat duly-data/token)"

// everywhere are the codes that every route with a right may answer.
var everywhere = []duly.Code{
	duly.CodeInvalid, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeLimited,
	duly.CodeUnavailable, duly.CodeClosed, duly.CodeCorrupt, duly.CodeInternal,
}

// object is a JSON object.
type object = map[string]any

// document is an OpenAPI document that is being built.
type document struct {
	schemas object // schemas by name
}

// OpenAPI returns the document.
func OpenAPI(version string, parts []Part) map[string]any {
	d := document{schemas: object{}}
	var tags []object
	paths := map[string]object{}
	// A path has one object for all its methods.
	for _, p := range parts {
		tags = append(tags, object{"name": p.Title, "description": p.Text})
		for i := range p.Routes {
			r := &p.Routes[i]
			if paths[r.Path] == nil {
				paths[r.Path] = object{}
			}
			paths[r.Path][strings.ToLower(r.Method)] = d.operation(p, r)
		}
	}

	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "duly", "version": version, "description": intro,
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []object{{"url": "/", "description": "This server"}},
		"tags":    tags,
		"paths":   paths,
		"components": object{"schemas": d.schemas, "securitySchemes": object{
			"token": object{
				"type": "http", "scheme": "bearer",
				"description": "A token of duly; it belongs to one namespace, or to all.",
			},
			"account": object{
				"type": "http", "scheme": "basic",
				"description": "An account of the admin address, where some are set.",
			},
		}},
	}
}

func (d *document) operation(p Part, r *route.Route) object {
	op := object{
		"operationId": r.Doc.ID, "tags": []string{p.Title}, "summary": r.Doc.Summary,
		"description": strings.TrimSpace(r.Doc.Text + "\n\nRight: " + r.Access.String() + "."),
		"x-right":     r.Access.String(), "security": security(r),
	}
	// The admin address is another server, so its routes override the list of servers.
	if p.Admin {
		op["servers"] = []object{
			{"url": "http://127.0.0.1:7778", "description": "The admin address of a local server"},
		}
	}
	if list := parameters(r); list != nil {
		op["parameters"] = list
	}
	if r.Doc.Request != nil {
		op["requestBody"] = object{
			"required": true,
			"content":  object{"application/json": d.media(r.Doc.Request, r.Doc.Example)},
		}
	}

	responses := object{strconv.Itoa(status(r)): d.success(r)}
	for status, codes := range failures(r) {
		media := d.media(wire.ProblemForm, exampleProblem(status, codes[0]))
		responses[strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ": " + strings.Join(codes, ", "),
			"content":     object{"application/problem+json": media},
		}
	}
	op["responses"] = responses
	return op
}

// security lists the credentials that a caller may use. An empty list means that the route is open.
func security(r *route.Route) []object {
	list := []object{}
	if r.Access != auth.Open {
		list = append(list, object{"token": []string{}})
	}
	// Accounts exist for the admin address only.
	if r.Access == auth.Operator {
		list = append(list, object{"account": []string{}})
	}
	return list
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

func parameters(r *route.Route) (list []object) {
	for _, m := range placeholder.FindAllStringSubmatch(r.Path, -1) {
		list = append(list, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, name := range r.Query {
		q := queryOf(r, name)
		schema := object{"type": q.kind}
		p := object{"name": name, "in": "query", "description": q.text, "schema": schema}
		// The only query parameter without a default is the state of a list.
		if name == requiredQuery {
			p["required"] = true
			schema["enum"] = strings.Split(states, ", ")
		}
		list = append(list, p)
	}
	return list
}

func status(r *route.Route) int {
	if r.Doc.Status != 0 {
		return r.Doc.Status
	}
	return http.StatusOK
}

func (d *document) success(r *route.Route) object {
	response := object{"description": "Done"}
	switch contentType := r.Doc.ContentType; {
	case r.Doc.Answer != nil:
		if contentType == "" {
			contentType = "application/json"
		}
		response["content"] = object{contentType: d.media(r.Doc.Answer, r.Doc.ExampleAnswer)}
	// A content type without a form means a file.
	case contentType != "":
		response["content"] = object{contentType: object{"schema": object{
			"type": "string", "format": "binary", "contentMediaType": "application/octet-stream",
		}}}
	}
	return response
}

// Codes lists the errors of a request as a whole.
func Codes(r *route.Route) []duly.Code {
	// The errors of tokens cannot occur without a token.
	if r.Access == auth.Open {
		return r.Doc.Errors
	}
	codes := slices.Concat(everywhere, r.Doc.Errors)
	// A request without a body cannot be too large.
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
	// Texts and a number always marshal.
	b, _ := json.Marshal(object{
		"type": "about:blank", "title": http.StatusText(status), "status": status,
		"code": code, "detail": "what is wrong, and what to do",
	})
	return string(b)
}

func (d *document) media(form route.Form, example string) object {
	media := object{"schema": d.reference(description(form))}
	if example != "" {
		var v any
		if err := json.Unmarshal([]byte(example), &v); err != nil {
			// Examples are constants, so an invalid one is a mistake in the program.
			panic("server: an example is not JSON: " + example)
		}
		media["example"] = v
	}
	return media
}

// reference returns a reference to the schema of an object, which it adds to the document.
func (d *document) reference(o *wire.Object) object {
	// The schema is stored before its fields are described, because a field may refer to it.
	if d.schemas[o.Name] == nil {
		properties, required := object{}, []string{}
		// Requests refuse unknown fields, but a later version may add fields to answers.
		schema := object{"type": "object", "properties": properties, "additionalProperties": o.Answer}
		d.schemas[o.Name] = schema

		for i := range o.Fields {
			f := &o.Fields[i]
			properties[f.Name] = d.property(f)
			if f.Required {
				required = append(required, f.Name)
			}
		}
		if len(required) > 0 {
			schema["required"] = required
		}
	}
	return object{"$ref": "#/components/schemas/" + o.Name}
}

func (d *document) property(f *wire.Field) object {
	var schema object
	if f.Object != nil {
		schema = d.reference(f.Object)
		if f.Kind == wire.NestedOrNone {
			schema = object{"title": "object or none", "anyOf": []object{schema, noneSchema()}}
		}
	} else {
		schema = kindSchema(f.Kind)
	}
	// Some keywords are about the list, and some about its items.
	if f.List {
		items := schema
		schema = object{"type": "array", "items": items}
		addKeywords(items, f.Keywords, "enum")
		addKeywords(schema, f.Keywords, "minItems", "maxItems")
	} else {
		addKeywords(schema, f.Keywords,
			"enum", "minimum", "maximum", "maxLength", "pattern", "maxProperties", "example")
	}
	schema["description"] = f.Doc
	return schema
}

// addKeywords adds the schema keywords that the field has.
func addKeywords(schema object, keywords string, names ...string) {
	for _, name := range names {
		text, ok := reflect.StructTag(keywords).Lookup(name)
		if !ok {
			continue
		}

		switch name {
		case "enum":
			schema[name] = strings.Split(text, ",")
		case "example":
			schema["examples"] = []string{text}
		case "pattern":
			schema[name] = text
		default:
			// All other keywords are numbers, which JSON must not quote.
			schema[name] = json.Number(text)
		}
	}
}

// kindSchema returns the schema of a kind of JSON value.
func kindSchema(k wire.Kind) object {
	none := noneSchema()
	switch k {
	case wire.Integer:
		return object{"type": "integer", "format": "int64"}
	case wire.Boolean:
		return object{"type": "boolean"}
	case wire.Duration:
		return object{"type": "string", "title": "duration", "examples": []string{"1h30m"}}
	case wire.DurationOrNone:
		return object{"type": "string", "title": "duration or none", "examples": []string{"7d", "none"}}
	case wire.CountOrNone:
		return object{"title": "integer or none", "anyOf": []object{{"type": "integer", "minimum": 1}, none}}
	case wire.RateOrNone:
		return object{"title": "number or none", "anyOf": []object{{"type": "number", "exclusiveMinimum": 0}, none}}
	case wire.Number:
		return object{"type": "number"}
	case wire.Time:
		return object{"type": "string", "format": "date-time"}
	case wire.TextMap:
		return object{"type": "object", "additionalProperties": object{"type": "string"}}
	case wire.IntegerMap:
		return object{"type": "object", "additionalProperties": kindSchema(wire.Integer)}
	}
	return object{"type": "string"} // plain text, and bytes as base64
}

// noneSchema returns the schema of the text none.
func noneSchema() object { return object{"type": "string", "enum": []string{"none"}} }

// states are the values of the query parameter state.
const states = "delayed, ready, blocked, leased, dead, done"

// requiredQuery is the only query parameter that must be given.
const requiredQuery = "state"

type query struct{ kind, text string }

func queryOf(r *route.Route, name string) query {
	if q, ok := queries[r.Doc.ID+" "+name]; ok {
		return q
	}
	return queries[name]
}

// queries are the query parameters of routes. A key "ID name" overrides the parameter for one route.
var queries = map[string]query{
	"cursor":      {"string", "The next of the page before. Default: the first page."},
	"limit":       {"integer", "The length of the page. Bound: 1 to 1000. Default: 100."},
	requiredQuery: {"string", "The state to list. Bound: delayed, ready, blocked, leased, dead or done."},
	"from": {"string", "Where to begin: start, end, a time, a position, or the next of the page before. " +
		"Default: start."},
	"listJobs from": {"string", "A time like 2026-01-31T08:00:00Z. The list begins at the first job of this time or " +
		"later, newest first at the last job of this time or earlier. The time of a job is when it is due, when its " +
		"lease ends, or when it became dead or done. Bound: 1970 to 9999; only delayed, leased, dead and done. " +
		"Default: the whole list."},
	"order": {"string", "oldest lists each shard in its order, newest in reverse. Bound: oldest or newest. " +
		"Default: oldest."},
	"wait": {"string", "How long to wait for a first message. Bound: 10m. Default: 0s."},
	"key":  {"string", "The key of the message; it decides the shard. Default: none."},
	"listJobs key": {"string", "Lists only the blocked jobs of this order key, in the order in which they take it. " +
		"Bound: 128 bytes; only blocked. Default: all keys."},
	"listOrderKeys key": {"string", "The only order key to return, instead of a page. Not together with prefix, cursor or " +
		"limit. Bound: 128 bytes. Default: a page."},
	"prefix":    {"string", "Lists only the order keys that begin with this text. Bound: 128 bytes. Default: all keys."},
	"version":   {"integer", "The version to delete. Default: any version."},
	"bodies":    {"boolean", "true adds the bodies and results. Default: false."},
	"stats":     {"boolean", "true adds each queue's sizes and counters. Default: false."},
	"namespace": {"string", "Only this namespace. Default: all."},
	"pool":      {"string", "The name of a pool, if the server has several. Default: the default pool."},
	"seconds":   {"integer", "How long profile and trace run. Bound: 1 to 300. Default: 30."},
	"debug":     {"integer", "1 or 2 answer text, 2 with more detail. Bound: 0 to 2. Default: 0."},
}
